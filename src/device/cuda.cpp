#include "device/cuda.hpp"

#include <fmt/format.h>

#include <utility>

#include "device/cuda_device.hpp"
#include "device/cuda_driver.hpp"

namespace reprieve::device {
namespace {

bool has_virtual_memory(const driver::Api& api, driver::Ordinal device) {
  int value = 0;
  return api.device_get_attribute(&value, driver::attribute_virtual_memory_management, device) == driver::success &&
         value != 0;
}

Status read_properties(const driver::Api& api, driver::Ordinal device, Properties& out) {
  char name[256] = {};
  Status status = driver::status_of(api.device_get_name(name, sizeof name - 1, device), "cuDeviceGetName");
  if (!status.ok()) return status;
  status = driver::status_of(api.device_total_mem(&out.total_bytes, device), "cuDeviceTotalMem");
  if (!status.ok()) return status;
  driver::AllocationProperties allocation{};
  allocation.type = driver::allocation_pinned;
  allocation.location = {driver::location_device, device};
  status = driver::status_of(api.mem_get_granularity(&out.granularity, &allocation, driver::granularity_minimum),
                             "cuMemGetAllocationGranularity");
  out.name = name;
  out.context_events = api.context_record_event != nullptr;
  return status;
}

class CudaBackend final : public Backend {
 public:
  CudaBackend(std::shared_ptr<const driver::Api> api, int devices) : api_(std::move(api)), devices_(devices) {}

  const char* name() const override { return "cuda"; }
  int device_count() const override { return devices_; }
  Status open(int ordinal, std::unique_ptr<Device>& out) override;

 private:
  const std::shared_ptr<const driver::Api> api_;
  const int devices_;
};

Status CudaBackend::open(int ordinal, std::unique_ptr<Device>& out) {
  if (ordinal < 0 || ordinal >= devices_) return failure(Errc::invalid_argument, "no such device");
  driver::Ordinal device = 0;
  Status status = driver::status_of(api_->device_get(&device, ordinal), "cuDeviceGet");
  if (!status.ok()) return status;
  if (!has_virtual_memory(*api_, device)) {
    return failure(Errc::not_supported, "the device has no virtual memory management");
  }
  Properties properties;
  properties.ordinal = ordinal;
  status = read_properties(*api_, device, properties);
  if (!status.ok()) return status;

  driver::Context context = nullptr;
  status = driver::status_of(api_->primary_context_retain(&context, device), "cuDevicePrimaryCtxRetain");
  if (!status.ok()) return status;
  auto opened = std::make_unique<CudaDevice>(api_, device, context, std::move(properties));
  status = opened->try_memory_calls();
  if (!status.ok()) return status;
  out = std::move(opened);
  return success();
}

}  // namespace

Status open_cuda(std::unique_ptr<Backend>& out, std::string& reason) {
  auto api = std::make_shared<driver::Api>();
  Status status = driver::load(*api, reason);
  if (!status.ok()) return status;

  int devices = 0;
  status = driver::status_of(api->device_get_count(&devices), "cuDeviceGetCount");
  if (status.ok() && devices == 0) status = failure(Errc::not_supported, "cuDeviceGetCount", driver::no_device);
  if (!status.ok()) {
    reason = fmt::format("the CUDA driver finds no device ({})", driver::describe(*api, status.driver));
    return failure(Errc::not_supported, status.what, status.driver);
  }
  for (int ordinal = 0; ordinal < devices; ++ordinal) {
    driver::Ordinal device = 0;
    if (api->device_get(&device, ordinal) == driver::success && has_virtual_memory(*api, device)) {
      out = std::make_unique<CudaBackend>(std::move(api), devices);
      return success();
    }
  }
  reason = "no device here has virtual memory management (cuMemCreate and cuMemMap), which reprieve is built on";
  return failure(Errc::not_supported, "CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED");
}

}  // namespace reprieve::device
