//! Rules for fields: how batches deliver them.

use crate::{host, make, raw, Dataset, Geometry, Result, SampleInfo, Status};
use std::ffi::{c_void, CStr, CString};
use std::fmt;
use std::mem::size_of;
use std::ptr::{self, NonNull};
use std::sync::Arc;

/// The value of a field that a rule's closure is asked about.
#[derive(Debug)]
pub struct RuleInput<'a> {
    /// The field's name.
    pub field: &'a str,
    /// The value, as [`Batch::bytes`](crate::Batch::bytes) has it.
    pub data: &'a [u8],
    pub sample: &'a SampleInfo,
    /// How each view of the loader's images shows the picture; empty if batches have no pictures.
    pub views: &'a [Geometry],
}

impl Geometry {
    /// Where a box of the picture (left, top, right, bottom) is in the output, clipped to it; None if nothing of it is there.
    pub fn map_box(&self, area: [f64; 4]) -> Option<[f64; 4]> {
        let mut out = [0.0; 4];
        // SAFETY: four numbers each.
        (unsafe { raw::bzna_geometry_box(self, area.as_ptr(), out.as_mut_ptr()) } != 0).then_some(out)
    }
}

/// A number that a rule's tensor has: f32, u8, i32 or i64.
pub trait Number: Copy + Send + sealed::Sealed + 'static {}

mod sealed {
    pub trait Sealed {
        const DTYPE: u32;
    }
}

macro_rules! number {
    ($($kind:ty, $dtype:ident;)*) => { $(
        impl sealed::Sealed for $kind { const DTYPE: u32 = crate::raw::$dtype; }
        impl Number for $kind {}
    )* };
}
number! { f32, BZNA_DTYPE_FLOAT32; u8, BZNA_DTYPE_UINT8; i32, BZNA_DTYPE_INT32; i64, BZNA_DTYPE_INT64; }

type AskFn = dyn Fn(&RuleInput<'_>, *mut c_void, usize) -> std::result::Result<u64, Status> + Send + Sync;

/// The closure behind a thin pointer, for `bzna_rule.user`.
pub(crate) struct Asker(Arc<AskFn>, Arc<host::Panics>);

impl fmt::Debug for Asker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Asker")
    }
}

/// How batches deliver a field; see [`LoaderBuilder::rule`](crate::LoaderBuilder::rule).
///
/// `field` is the field's name; or ".json" for "json" and all names that end so; or a pattern with `*` and `?`.
///
/// ```no_run
/// # fn main() -> benzina::Result<()> {
/// # let data = benzina::Context::new(Default::default())?.open("train.tar")?;
/// let boxes = benzina::Rule::rows("box.*", "boxes", 100, &[4], |input, out: &mut [f32]| {
///     let numbers: Vec<f64> = std::str::from_utf8(input.data).ok().map_or(Ok(vec![]), |text| {
///         text.split_whitespace().map(|word| word.parse().map_err(|_| benzina::Status::FORMAT)).collect()
///     })?;
///     let mapped = numbers.chunks_exact(4).filter_map(|b| input.views[0].map_box([b[0], b[1], b[2], b[3]]));
///     let mut count = 0;
///     for (row, mapped) in out.chunks_exact_mut(4).zip(mapped) {
///         row.copy_from_slice(&mapped.map(|edge| edge as f32));
///         count += 1;
///     }
///     Ok(count)
/// });
/// let loader = data.loader().batch_size(16).size(640, 640).rule(boxes);
/// # Ok(())
/// # }
/// ```
///
/// Closures run on the loader's threads, several at once. An error says that the data are damaged, and fails the sample, except
/// [`Status::CALLBACK`], which is a fault of the program; a panic is resumed in the call that asks for the next batch.
pub struct Rule {
    field: String,
    name: String,
    kind: u32,
    dtype: u32,
    shape: Vec<i64>,
    ask: Option<Arc<AskFn>>,
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rule").field("field", &self.field).field("name", &self.name).field("shape", &self.shape).finish_non_exhaustive()
    }
}

impl Rule {
    /// The field's bytes under another name, for [`Batch::bytes`](crate::Batch::bytes).
    pub fn bytes(field: &str, name: &str) -> Rule {
        Rule { field: field.into(), name: name.into(), kind: raw::BZNA_RULE_BYTES, dtype: 0, shape: Vec::new(), ask: None }
    }

    /// A tensor, of which the closure fills in a sample's part: zeros of the shape given.
    pub fn tensor<T: Number, F>(field: &str, name: &str, shape: &[usize], function: F) -> Rule
    where
        F: Fn(&RuleInput<'_>, &mut [T]) -> std::result::Result<(), Status> + Send + Sync + 'static,
    {
        Rule::of(raw::BZNA_RULE_TENSOR, field, name, shape.iter().copied(), move |input, out| function(input, out).map(|()| 0))
    }

    /// A tensor of up to `rows` rows of a shape: the closure fills in the first of them, and says how many they are. Beside it is
    /// the tensor NAME_count, of [`integers`](crate::Batch::integers).
    pub fn rows<T: Number, F>(field: &str, name: &str, rows: usize, shape: &[usize], function: F) -> Rule
    where
        F: Fn(&RuleInput<'_>, &mut [T]) -> std::result::Result<usize, Status> + Send + Sync + 'static,
    {
        let shape = std::iter::once(rows).chain(shape.iter().copied());
        Rule::of(raw::BZNA_RULE_ROWS, field, name, shape, move |input, out| function(input, out).map(|count| count as u64))
    }

    fn of<T: Number, F>(kind: u32, field: &str, name: &str, shape: impl Iterator<Item = usize>, function: F) -> Rule
    where
        F: Fn(&RuleInput<'_>, &mut [T]) -> std::result::Result<u64, Status> + Send + Sync + 'static,
    {
        let ask: Arc<AskFn> = Arc::new(move |input: &RuleInput<'_>, out: *mut c_void, bytes: usize| {
            // SAFETY: the tensor's own numbers of this sample, aligned to one of them, and nobody else's meanwhile.
            function(input, unsafe { crate::slice_of_mut(out.cast::<T>(), bytes / size_of::<T>()) })
        });
        let shape = shape.map(|length| i64::try_from(length).unwrap_or(i64::MAX)).collect();
        Rule { field: field.into(), name: name.into(), kind, dtype: T::DTYPE, shape, ask: Some(ask) }
    }

    pub(crate) fn bind(&self, panics: &Arc<host::Panics>) -> Option<Arc<Asker>> {
        self.ask.as_ref().map(|ask| Arc::new(Asker(ask.clone(), panics.clone())))
    }

    pub(crate) fn texts(&self) -> Result<[CString; 2]> {
        Ok([crate::c_string(&self.field)?, crate::c_string(&self.name)?])
    }

    /// What C takes; it points to the texts and to the asker.
    pub(crate) fn raw(&self, texts: &[CString; 2], asker: &Option<Arc<Asker>>) -> raw::bzna_rule {
        let mut rule = raw::bzna_rule { struct_size: size_of::<raw::bzna_rule>() as u32, ..Default::default() };
        (rule.kind, rule.dtype) = (self.kind, self.dtype);
        (rule.field, rule.name) = (texts[0].as_ptr(), texts[1].as_ptr());
        rule.dimensions = self.shape.len() as u32;
        for (to, length) in rule.shape.iter_mut().zip(&self.shape) {
            *to = *length;
        }
        if let Some(asker) = asker {
            rule.call = Some(ask);
            rule.user = Arc::as_ptr(asker).cast_mut().cast();
        }
        rule
    }
}

/// The rules of a loader, which must be closed before them.
pub(crate) struct Opened(NonNull<raw::bzna_rules>);

impl Opened {
    /// Has the config ask the rules; None: there are none.
    pub(crate) fn of(rules: &[raw::bzna_rule], data: &Dataset, config: &mut raw::bzna_loader_config) -> Result<Option<Opened>> {
        if rules.is_empty() {
            return Ok(None);
        }
        let count = rules.len() as u32;
        // SAFETY: the rules are copied; the config then points to what lives until they are closed.
        let opened = make(|out, err| unsafe { raw::bzna_formats_rules_open(data.as_raw(), rules.as_ptr(), count, config, out, err) })?;
        Ok(Some(Opened(opened)))
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        // SAFETY: ours, after the loader was closed.
        unsafe { raw::bzna_formats_rules_close(self.0.as_ptr()) }
    }
}

unsafe extern "C" fn ask(
    user: *mut c_void,
    input: *const raw::bzna_rule_input,
    out: *mut c_void,
    out_bytes: u64,
    count: *mut u64,
) -> raw::bzna_status {
    let (asker, input) = (&*user.cast::<Asker>(), &*input);
    asker.1.guard(|| {
        let given = RuleInput {
            field: CStr::from_ptr(input.field).to_str().unwrap_or(""),
            data: crate::slice_of(input.data.cast(), input.size as usize),
            sample: &*input.sample,
            views: if input.geometry.is_null() { &[] } else { std::slice::from_raw_parts(input.geometry, input.view_count as usize) },
        };
        match (asker.0)(&given, out, out_bytes as usize) {
            Ok(rows) => {
                ptr::write(count, rows);
                raw::BZNA_OK
            }
            Err(status) => crate::loader::result_of(Err(status)),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a rule's function says of a value, and what it made.
    fn asked<T: Number + Default>(rule: &Rule, field: &CStr, data: &[u8], numbers: usize) -> (raw::bzna_status, u64, Vec<T>) {
        let panics = Arc::new(host::Panics::default());
        let (texts, asker) = (rule.texts().unwrap(), rule.bind(&panics));
        let raw = rule.raw(&texts, &asker);
        let sample = raw::bzna_sample_info { index: 7, ..Default::default() };
        let views = [raw::bzna_geometry { width: 40, ..Default::default() }, Default::default()];
        let input = raw::bzna_rule_input {
            field: field.as_ptr(),
            data: if data.is_empty() { ptr::null() } else { data.as_ptr().cast() },
            size: data.len() as u64,
            sample: &sample,
            geometry: if field == c"blind" { ptr::null() } else { views.as_ptr() },
            view_count: if field == c"blind" { 0 } else { 2 },
            ..Default::default()
        };
        let (mut out, mut count) = (vec![T::default(); numbers], 0);
        let status = unsafe { raw.call.unwrap()(raw.user, &input, out.as_mut_ptr().cast(), (numbers * size_of::<T>()) as u64, &mut count) };
        (status, count, out)
    }

    #[test]
    fn a_rule_is_asked_through_its_function() {
        let tensor = Rule::tensor("*", "sum", &[2, 1], |input: &RuleInput<'_>, out: &mut [i64]| {
            assert_eq!((input.sample.index, out.len()), (7, 2));
            out[0] = input.data.iter().map(|byte| i64::from(*byte)).sum();
            out[1] = input.views.first().map_or(-1, |view| i64::from(view.width));
            if input.field == "bad" {
                return Err(Status::FORMAT);
            }
            Ok(())
        });
        assert_eq!(asked::<i64>(&tensor, c"good", &[1, 2, 3], 2), (raw::BZNA_OK, 0, vec![6, 40]));
        assert_eq!(asked::<i64>(&tensor, c"blind", &[], 2), (raw::BZNA_OK, 0, vec![0, -1]));
        assert_eq!(asked::<i64>(&tensor, c"bad", &[1], 2).0, raw::BZNA_E_FORMAT);

        let rows = Rule::rows("*", "rows", 3, &[2], |input: &RuleInput<'_>, out: &mut [f32]| {
            assert!(!input.data.is_empty(), "mine");
            out[..2].copy_from_slice(&[0.5, 1.5]);
            Ok(input.data.len())
        });
        assert_eq!(asked::<f32>(&rows, c"x", &[1], 6), (raw::BZNA_OK, 1, vec![0.5, 1.5, 0., 0., 0., 0.]));
        assert_eq!(asked::<f32>(&rows, c"x", &[], 6).0, i32::MIN);
        let texts = rows.texts().unwrap();
        let raw = rows.raw(&texts, &None);
        assert_eq!((raw.kind, raw.dimensions, raw.shape, raw.call.is_none()), (raw::BZNA_RULE_ROWS, 2, [3, 2, 0, 0], true));
    }
}
