//! Batches on a CUDA device, read back through the driver that the library found. Ignored without being asked for:
//!
//!     cargo test --test device -- --ignored           with a GPU, or with LD_LIBRARY_PATH naming a driver that the tests make
#![cfg(unix)]

mod common;

use benzina::{Codec, Context, ContextConfig, Dataset, DecodeWith, Device, Dtype, Status};
use common::{archive, collect, mini};
use std::ffi::{c_char, c_int, c_void, CString};

extern "C" {
    fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// Device 0's primary context, current on this thread: what a program of CUDA's has.
struct Driver {
    library: *mut c_void,
}

impl Driver {
    fn new() -> Driver {
        let library = unsafe { dlopen(c"libcuda.so.1".as_ptr(), 2) };
        assert!(!library.is_null(), "there is no libcuda.so.1");
        let driver = Driver { library };
        let mut context = std::ptr::null_mut::<c_void>();
        unsafe {
            let init: unsafe extern "C" fn(u32) -> c_int = driver.function("cuInit");
            let retain: unsafe extern "C" fn(*mut *mut c_void, c_int) -> c_int = driver.function("cuDevicePrimaryCtxRetain");
            let push: unsafe extern "C" fn(*mut c_void) -> c_int = driver.function("cuCtxPushCurrent_v2");
            assert_eq!((init(0), retain(&mut context, 0), push(context)), (0, 0, 0));
        }
        driver
    }

    /// F: the function's type.
    unsafe fn function<F: Copy>(&self, name: &str) -> F {
        let name = CString::new(name).unwrap();
        let found = dlsym(self.library, name.as_ptr());
        assert!(!found.is_null(), "the driver has no {name:?}");
        std::mem::transmute_copy(&found)
    }

    fn stream(&self) -> *mut c_void {
        let mut stream = std::ptr::null_mut();
        let create: unsafe extern "C" fn(*mut *mut c_void, u32) -> c_int = unsafe { self.function("cuStreamCreate") };
        assert_eq!(unsafe { create(&mut stream, 1) }, 0);
        stream
    }

    fn destroy(&self, stream: *mut c_void) {
        let destroy: unsafe extern "C" fn(*mut c_void) -> c_int = unsafe { self.function("cuStreamDestroy_v2") };
        assert_eq!(unsafe { destroy(stream) }, 0);
    }

    /// What lies on the device, once everything enqueued on the stream is done.
    fn read<T: Clone + Default>(&self, stream: *mut c_void, device: *mut c_void, count: usize) -> Vec<T> {
        let mut host = vec![T::default(); count];
        let bytes = std::mem::size_of_val(&host[..]);
        unsafe {
            let synchronize: unsafe extern "C" fn(*mut c_void) -> c_int = self.function("cuStreamSynchronize");
            let copy: unsafe extern "C" fn(*mut c_void, u64, usize) -> c_int = self.function("cuMemcpyDtoH_v2");
            assert_eq!((synchronize(stream), copy(host.as_mut_ptr().cast(), device as u64, bytes)), (0, 0));
        }
        host
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let mut context = std::ptr::null_mut::<c_void>();
        unsafe {
            let pop: unsafe extern "C" fn(*mut *mut c_void) -> c_int = self.function("cuCtxPopCurrent_v2");
            let release: unsafe extern "C" fn(c_int) -> c_int = self.function("cuDevicePrimaryCtxRelease");
            assert_eq!((pop(&mut context), release(0)), (0, 0));
        }
    }
}

fn on_device() -> Dataset {
    Context::new(ContextConfig::default().cuda(0)).unwrap().open(archive("mini_h265.bzna")).unwrap()
}

fn loader(data: &Dataset, dtype: Dtype) -> benzina::LoaderBuilder<'_> {
    data.loader().batch_size(3).size(40, 24).shuffle(7).random_resized_crop().flip(0.5, 0.0).dtype(dtype)
}

#[test]
#[ignore = "needs a GPU"]
fn a_device_is_described() {
    let ctx = Context::new(ContextConfig::default().cuda(0).sessions(2)).unwrap();
    let info = ctx.device().unwrap();
    assert!(Device::from(info.device) == Device::Cuda(0) && !info.name().is_empty() && info.memory_bytes > 1 << 28, "{info:?}");
    assert!(info.video_error().is_none(), "{:?}", info.video_error());
    assert!(benzina::device_count().unwrap() >= 1);
    let codec = ctx.codec(Codec::H265, 1, 8).unwrap();
    assert!(codec.supported == 1 && codec.max_width >= 4096 && codec.engines >= 1, "{codec:?}");
    assert_eq!(ctx.codec(Codec::H265, 7, 8).unwrap_err().status, Status::ARGUMENT);
    assert_eq!(Context::new(ContextConfig::default().cuda(4000)).unwrap_err().status, Status::DEVICE);
}

#[test]
#[ignore = "needs a GPU"]
fn batches_of_nvdec_have_the_processors_pixels_wherever_they_lie() {
    let expected = collect(loader(&mini(), Dtype::F32).open().unwrap());
    let data = on_device();
    let host = loader(&data, Dtype::F32).decode_with(DecodeWith::Nvdec).open().unwrap();
    assert!(host.info().unwrap().decoder_name().starts_with("NVDEC"), "{}", host.info().unwrap().decoder_name());
    assert!(collect(&host) == expected);
    assert_eq!(host.statistics().unwrap().samples_software, 0);

    let driver = Driver::new();
    let mut pixels = Vec::new();
    for batch in loader(&data, Dtype::F32).decode_with(DecodeWith::Nvdec).device(Device::Cuda(0)).open().unwrap() {
        let batch = batch.unwrap();
        assert!(batch.device() == Device::Cuda(0) && !batch.stream().is_null());
        pixels.extend(driver.read::<f32>(batch.stream(), batch.device_image(), batch.shape().iter().product()));
    }
    assert!(pixels == expected.pixels);
}

#[test]
#[ignore = "needs a GPU"]
fn half_precision_is_the_same_on_device_and_host() {
    let data = on_device();
    let driver = Driver::new();
    let host = loader(&data, Dtype::F16).open().unwrap();
    for batch in loader(&data, Dtype::F16).device(Device::Cuda(0)).open().unwrap() {
        let (batch, on_host) = (batch.unwrap(), host.next_batch().unwrap().unwrap());
        assert!(driver.read::<u16>(batch.stream(), batch.device_image(), batch.shape().iter().product()) == on_host.image_bits());
    }
}

#[test]
#[ignore = "needs a GPU"]
fn a_batch_goes_to_the_consumers_stream() {
    let expected = collect(loader(&mini(), Dtype::F32).open().unwrap());
    let data = on_device();
    let driver = Driver::new();
    let (mine, other) = (driver.stream(), driver.stream());
    // SAFETY: the streams are of device 0's primary context, and are destroyed at the end.
    let on_mine = unsafe { loader(&data, Dtype::F32).device(Device::Cuda(0)).stream(mine).open().unwrap() };
    let mut pixels = Vec::new();
    for (i, batch) in on_mine.iter().enumerate() {
        let mut batch = batch.unwrap();
        assert_eq!(batch.stream(), mine);
        if i > 0 {
            unsafe { batch.move_to_stream(other).unwrap() };
            assert_eq!(batch.stream(), other);
        }
        pixels.extend(driver.read::<f32>(batch.stream(), batch.device_image(), batch.shape().iter().product()));
    }
    assert!(pixels == expected.pixels);
    drop(on_mine);
    driver.destroy(mine);
    driver.destroy(other);
}

#[test]
#[ignore = "needs a GPU"]
#[should_panic(expected = "the batch is on Cuda(0)")]
fn device_memory_is_no_slice() {
    let data = on_device();
    let loader = loader(&data, Dtype::F32).device(Device::Cuda(0)).open().unwrap();
    let batch = loader.next_batch().unwrap().unwrap();
    batch.image();
}
