//! How raw.rs declares C's types, and a table of them for tests/abi.rs.

/// One field of a struct: its name, where it begins and how long it is, in bytes, and its type.
#[derive(Debug)]
pub struct Field(pub &'static str, pub usize, pub usize, pub &'static str);

/// The types that C hides.
macro_rules! opaque {
    ($($(#[$attribute:meta])* $name:ident;)*) => {
        $($(#[$attribute])* #[repr(C)] #[derive(Debug)] pub struct $name { _hidden: [u8; 0] })*
    };
}

/// The types that C shows: the struct itself, a zeroed default (which is what the header asks for before struct_size is set; null
/// pointers and absent callbacks are zeros too), and a table of its fields for the test.
macro_rules! structs {
    ($($(#[$attribute:meta])* struct $name:ident { $($(#[$about:meta])* $field:ident: $type:ty),* $(,)? })*) => {
        $(
            $(#[$attribute])*
            #[repr(C)]
            #[derive(Clone, Copy, Debug)]
            pub struct $name { $($(#[$about])* pub $field: $type),* }

            impl Default for $name {
                fn default() -> Self {
                    // SAFETY: integers, floats, raw pointers, Option of fn pointers, and arrays and structs of these may be zero.
                    unsafe { std::mem::zeroed() }
                }
            }
        )*
        /// Every struct of this file: name, size, alignment, fields.
        #[doc(hidden)]
        pub const LAYOUT: &[(&str, usize, usize, &[$crate::layout::Field])] = &[$((
            stringify!($name), std::mem::size_of::<$name>(), std::mem::align_of::<$name>(),
            &[$($crate::layout::Field(
                stringify!($field), std::mem::offset_of!($name, $field), std::mem::size_of::<$type>(), stringify!($type),
            )),*],
        )),*];
    };
}

// SAFETY: what data points to is an address to whoever has one; reading there is what is unsafe.
unsafe impl Send for crate::raw::bzna_tensor {}
unsafe impl Sync for crate::raw::bzna_tensor {}
