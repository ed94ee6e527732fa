//! The formats of `examples/formats`, which the library does not know by itself. Every context has their codecs.

use crate::raw;

/// The codecs of libbenzina_formats.
pub(crate) fn codecs() -> &'static [raw::bzna_codec] {
    let mut count = 0;
    // SAFETY: the array has as many, is made once, and never changes.
    unsafe { std::slice::from_raw_parts(raw::bzna_formats_codecs(&mut count), count as usize) }
}
