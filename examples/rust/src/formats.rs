//! Codecs in C from `examples/formats`, for [`ContextConfig::codec_in_c`](crate::ContextConfig::codec_in_c). With the feature `jxl`.

use crate::raw;

#[cfg(has_jxl)]
extern "C" {
    fn bzna_formats_jxl(codec: *mut raw::bzna_codec);
}

/// The codec of JPEG XL, by libjxl; None where the crate was built without it.
pub fn jxl() -> Option<raw::bzna_codec> {
    #[cfg(has_jxl)]
    {
        let mut codec = raw::bzna_codec::default();
        // SAFETY: it fills in the struct.
        unsafe { bzna_formats_jxl(&mut codec) };
        Some(codec)
    }
    #[cfg(not(has_jxl))]
    None
}
