// Tells a PyTorch that was built without CUDA that there are GPUs, on which nothing is computed.
// With it, autograd accepts the fake tensors of torch._subclasses.fake_tensor on them.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/FakeGuardImpl.h>

namespace {

// PyTorch's own double of a device guard: it remembers which device is the current one.
using Guard = c10::impl::FakeGuardImpl<c10::DeviceType::CUDA>;

// PyTorch looks for it by this name.
struct CUDAHooks final : at::CUDAHooksInterface {
  explicit CUDAHooks(at::CUDAHooksArgs) {}

  void init() const override {}
  bool hasCUDA() const override { return true; }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(at::DeviceIndex) const override { return true; }

  int getNumGPUs() const override { return c10::impl::kFakeGuardImplMaxDevices; }
  at::DeviceIndex deviceCount() const override { return c10::impl::kFakeGuardImplMaxDevices; }
  at::DeviceIndex current_device() const override { return Guard::getDeviceIndex(); }
  at::DeviceIndex getCurrentDevice() const override { return Guard::getDeviceIndex(); }
  void setCurrentDevice(at::DeviceIndex index) const override { Guard::setDeviceIndex(index); }

  const at::Generator& getDefaultGenerator(at::DeviceIndex) const override {
    return at::detail::getDefaultCPUGenerator();
  }
  at::Generator getNewGenerator(at::DeviceIndex) const override {
    return at::make_generator<at::CPUGeneratorImpl>();
  }
};

}  // namespace

C10_REGISTER_GUARD_IMPL(CUDA, Guard);

namespace at {
REGISTER_CUDA_HOOKS(CUDAHooks);
}

// The current device, for Python: torch.cuda has no such functions in a build without CUDA.
extern "C" void imagined_set_device(int index) {
  Guard::setDeviceIndex(static_cast<c10::DeviceIndex>(index));
}
extern "C" int imagined_current_device() { return Guard::getDeviceIndex(); }
