// Stand-in for libnvidia-ml: the simulated devices as this process sees them. Other processes' use of a simulated device
// is not seen, since each process simulates its own; no process is ever listed. What asks for sensors gets an idle card.
//
// No call makes the simulated machine: a program may ask NVML how many devices there are, fork, and use them in the child.
#include <unistd.h>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/options.hpp"
#include "simgpu/process.hpp"
#include "standin/properties.hpp"

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace {

using reprieve::Options;
using reprieve::standin::device_name;
using reprieve::standin::device_uuid;
using reprieve::standin::pci_address;
using reprieve::standin::PciAddress;

enum Return : int {
  success = 0,
  invalid_argument = 2,
  not_supported = 3,
  not_found = 6,
  insufficient_size = 7,
  driver_not_loaded = 9,
  version_mismatch = 25,
};

// Handles are addresses of these; never dereferenced.
struct Device;

struct Memory {
  unsigned long long total, free, used;
};
struct MemoryV2 {
  unsigned version;
  unsigned long long total, reserved, free, used;
};
constexpr unsigned memory_v2 = sizeof(MemoryV2) | 2U << 24;

struct Utilization {
  unsigned gpu, memory;  // per cent
};

struct Pci {
  char bus_id_legacy[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char bus_id[32];
};

// The version that the measurements in docs/driver.md are of.
constexpr const char* driver = "580.159.04";

bool read_options(Options& out) {
  std::vector<std::string> warnings;
  std::string error;
  out = reprieve::default_options();
  return reprieve::apply_environment(out, environ, warnings, error);
}

// Of the machine where there is one, else of the one that would be made. 0: none can be.
unsigned device_count() {
  if (const auto running = reprieve::simgpu::running_machine()) return static_cast<unsigned>(running->device_count());
  Options options;
  return read_options(options) ? static_cast<unsigned>(options.sim_devices) : 0;
}

Device* handle_of(unsigned index) { return reinterpret_cast<Device*>(static_cast<std::uintptr_t>(index) + 1); }

// The index of a handle; `device_count()` or more for what is none.
unsigned index_of(const Device* device) {
  const auto value = reinterpret_cast<std::uintptr_t>(device);
  return value >= 1 && value <= device_count() ? static_cast<unsigned>(value - 1) : ~0U;
}
bool is_device(const Device* device) { return index_of(device) != ~0U; }

Return put(std::string_view text, char* out, unsigned room) {
  if (out == nullptr) return invalid_argument;
  if (text.size() + 1 > room) return insufficient_size;
  std::memcpy(out, text.data(), text.size());
  out[text.size()] = '\0';
  return success;
}

template <typename Value>
Return put_for(const Device* device, Value* out, Value value) {
  if (!is_device(device) || out == nullptr) return invalid_argument;
  *out = value;
  return success;
}

std::string uuid_text(unsigned index) {
  const CUuuid uuid = device_uuid(static_cast<int>(index));
  std::string out = "GPU-";
  for (int byte = 0; byte < 16; ++byte) {
    if (byte == 4 || byte == 6 || byte == 8 || byte == 10) out += '-';
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned char>(uuid.bytes[byte]));
    out += digits;
  }
  return out;
}

std::string bus_id(unsigned index, int domain_digits) {
  const PciAddress pci = pci_address(static_cast<int>(index));
  char out[32];
  std::snprintf(out, sizeof out, "%0*X:%02X:%02X.0", domain_digits, static_cast<unsigned>(pci.domain),
                static_cast<unsigned>(pci.bus), static_cast<unsigned>(pci.device));
  return out;
}

Return memory_of(const Device* device, Memory& out) {
  if (!is_device(device)) return invalid_argument;
  if (const auto running = reprieve::simgpu::running_machine()) {
    std::uint64_t free = 0;
    std::uint64_t total = 0;
    if (running->memory_info(static_cast<int>(index_of(device)), free, total) == reprieve::simgpu::Code::success) {
      out = {total, free, total - free};
      return success;
    }
  }
  Options options;
  if (!read_options(options)) return driver_not_loaded;
  out = {options.sim_capacity, options.sim_capacity, 0};
  return success;
}

Return no_processes(const Device* device, unsigned* count) { return put_for(device, count, 0U); }

}  // namespace

EXPORTED int nvmlInit_v2() { return device_count() > 0 ? success : driver_not_loaded; }
EXPORTED int nvmlInit() { return nvmlInit_v2(); }
EXPORTED int nvmlInitWithFlags(unsigned /*flags*/) { return nvmlInit_v2(); }
EXPORTED int nvmlShutdown() { return success; }

EXPORTED const char* nvmlErrorString(int error) {
  switch (error) {
    case success: return "Success";
    case invalid_argument: return "Invalid Argument";
    case not_supported: return "Not Supported";
    case not_found: return "Not Found";
    case insufficient_size: return "Insufficient Size";
    case driver_not_loaded: return "Driver Not Loaded";
    case version_mismatch: return "Argument version mismatch";
    default: return "Unknown Error";
  }
}

EXPORTED int nvmlSystemGetDriverVersion(char* out, unsigned room) { return put(driver, out, room); }
EXPORTED int nvmlSystemGetNVMLVersion(char* out, unsigned room) { return put("13.580.159.04", out, room); }
EXPORTED int nvmlSystemGetCudaDriverVersion_v2(int* out) {
  if (out == nullptr) return invalid_argument;
  *out = reprieve::standin::driver_version;
  return success;
}
EXPORTED int nvmlSystemGetCudaDriverVersion(int* out) { return nvmlSystemGetCudaDriverVersion_v2(out); }

EXPORTED int nvmlDeviceGetCount_v2(unsigned* out) {
  if (out == nullptr) return invalid_argument;
  *out = device_count();
  return success;
}

EXPORTED int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device** out) {
  if (out == nullptr || index >= device_count()) return invalid_argument;
  *out = handle_of(index);
  return success;
}

EXPORTED int nvmlDeviceGetHandleByUUID(const char* uuid, Device** out) {
  if (out == nullptr || uuid == nullptr) return invalid_argument;
  for (unsigned index = 0; index < device_count(); ++index) {
    if (uuid_text(index) != uuid) continue;
    *out = handle_of(index);
    return success;
  }
  return not_found;
}

EXPORTED int nvmlDeviceGetHandleByPciBusId_v2(const char* wanted, Device** out) {
  if (out == nullptr || wanted == nullptr) return invalid_argument;
  for (unsigned index = 0; index < device_count(); ++index) {
    // With the domain in four digits, as CUDA writes it, or in eight.
    if (strcasecmp(bus_id(index, 4).c_str(), wanted) != 0 && strcasecmp(bus_id(index, 8).c_str(), wanted) != 0)
      continue;
    *out = handle_of(index);
    return success;
  }
  return not_found;
}

EXPORTED int nvmlDeviceGetName(const Device* device, char* out, unsigned room) {
  return is_device(device) ? put(device_name, out, room) : invalid_argument;
}
EXPORTED int nvmlDeviceGetUUID(const Device* device, char* out, unsigned room) {
  return is_device(device) ? put(uuid_text(index_of(device)), out, room) : invalid_argument;
}
EXPORTED int nvmlDeviceGetIndex(const Device* device, unsigned* out) { return put_for(device, out, index_of(device)); }
EXPORTED int nvmlDeviceGetMinorNumber(const Device* device, unsigned* out) {
  return put_for(device, out, index_of(device));
}

EXPORTED int nvmlDeviceGetPciInfo_v3(const Device* device, Pci* out) {
  if (!is_device(device) || out == nullptr) return invalid_argument;
  const PciAddress pci = pci_address(static_cast<int>(index_of(device)));
  *out = {};
  out->domain = static_cast<unsigned>(pci.domain);
  out->bus = static_cast<unsigned>(pci.bus);
  out->device = static_cast<unsigned>(pci.device);
  put(bus_id(index_of(device), 4), out->bus_id_legacy, sizeof out->bus_id_legacy);
  put(bus_id(index_of(device), 8), out->bus_id, sizeof out->bus_id);
  return success;
}

EXPORTED int nvmlDeviceGetCudaComputeCapability(const Device* device, int* major, int* minor) {
  if (!is_device(device) || major == nullptr || minor == nullptr) return invalid_argument;
  Options options;
  if (!read_options(options)) return driver_not_loaded;
  const auto tenths = static_cast<int>(std::lround(options.sim_capability * 10));
  *major = tenths / 10;
  *minor = tenths % 10;
  return success;
}

EXPORTED int nvmlDeviceGetMemoryInfo(const Device* device, Memory* out) {
  return out != nullptr ? memory_of(device, *out) : invalid_argument;
}
EXPORTED int nvmlDeviceGetMemoryInfo_v2(const Device* device, MemoryV2* out) {
  if (out == nullptr) return invalid_argument;
  if (out->version != memory_v2) return version_mismatch;
  Memory memory{};
  const Return result = memory_of(device, memory);
  if (result == success) *out = {memory_v2, memory.total, 0, memory.free, memory.used};
  return result;
}

// Each version has another layout of what it lists, and an empty list has none.
EXPORTED int nvmlDeviceGetComputeRunningProcesses(const Device* device, unsigned* count, void* /*list*/) {
  return no_processes(device, count);
}
EXPORTED int nvmlDeviceGetComputeRunningProcesses_v2(const Device* device, unsigned* count, void* /*list*/) {
  return no_processes(device, count);
}
EXPORTED int nvmlDeviceGetComputeRunningProcesses_v3(const Device* device, unsigned* count, void* /*list*/) {
  return no_processes(device, count);
}
EXPORTED int nvmlDeviceGetGraphicsRunningProcesses_v3(const Device* device, unsigned* count, void* /*list*/) {
  return no_processes(device, count);
}

EXPORTED int nvmlDeviceGetUtilizationRates(const Device* device, Utilization* out) {
  return put_for(device, out, Utilization{});
}
EXPORTED int nvmlDeviceGetTemperature(const Device* device, int /*sensor*/, unsigned* out) {
  return put_for(device, out, 30U);  // degrees Celsius
}
EXPORTED int nvmlDeviceGetPowerUsage(const Device* device, unsigned* out) {
  return put_for(device, out, 75'000U);  // milliwatts
}
EXPORTED int nvmlDeviceGetClockInfo(const Device* device, int /*clock*/, unsigned* out) {
  return put_for(device, out, 345U);  // MHz
}

// Devices are not linked to each other, and may use each other's memory through PCIe.
EXPORTED int nvmlDeviceGetNvLinkRemoteDeviceType(const Device* /*device*/, unsigned /*link*/, int* /*out*/) {
  return not_supported;
}
EXPORTED int nvmlDeviceGetNvLinkRemotePciInfo_v2(const Device* /*device*/, unsigned /*link*/, void* /*out*/) {
  return not_supported;
}
EXPORTED int nvmlDeviceGetP2PStatus(const Device* first, const Device* second, int /*capability*/, int* out) {
  if (!is_device(first) || !is_device(second) || out == nullptr) return invalid_argument;
  *out = 0;  // NVML_P2P_STATUS_OK
  return success;
}
EXPORTED int nvmlDeviceGetGpuFabricInfo(const Device* /*device*/, void* /*out*/) { return not_supported; }
EXPORTED int nvmlDeviceGetGpuFabricInfoV(const Device* /*device*/, void* /*out*/) { return not_supported; }
EXPORTED int nvmlDeviceGetMigMode(const Device* /*device*/, unsigned* /*current*/, unsigned* /*pending*/) {
  return not_supported;
}
