//! Codecs in C from `examples/formats`: formats that the library does not know by itself. Every context has them.

use crate::raw;

#[cfg(has_formats)]
extern "C" {
    fn bzna_formats_codecs(count: *mut u64) -> *const raw::bzna_codec;
}

/// The codecs of libbenzina_formats; none where the crate was built without it.
pub(crate) fn codecs() -> &'static [raw::bzna_codec] {
    #[cfg(has_formats)]
    {
        let mut count = 0;
        // SAFETY: the array has as many, is made once, and never changes.
        unsafe { std::slice::from_raw_parts(bzna_formats_codecs(&mut count), count as usize) }
    }
    #[cfg(not(has_formats))]
    &[]
}
