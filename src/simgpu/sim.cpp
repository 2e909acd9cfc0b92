// The C interface. Nothing throws across it but what ends the process anyhow.
#include "simgpu/sim.h"

#include <reprieve/reprieve.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <string>

#include "simgpu/process.hpp"

namespace {

using reprieve::simgpu::Machine;
using reprieve::simgpu::Mode;
using reprieve::simgpu::StreamId;
using reprieve::simgpu::User;

std::string& last_error() {
  thread_local std::string text;
  return text;
}

int refuse(std::string reason) {
  last_error() = std::move(reason);
  return -1;
}

// What this interface itself keeps alive.
struct Kept {
  std::mutex mutex;
  std::shared_ptr<Machine> machine;
};

Kept& kept() {
  static auto* const made = new Kept;  // never destroyed, as the machine that it may hold
  return *made;
}

std::shared_ptr<Machine> machine() {
  if (auto running = reprieve::simgpu::running_machine(); running != nullptr) return running;
  std::string error;
  auto made = reprieve::simgpu::process_machine(User::library, error);
  if (made == nullptr) {
    last_error() = std::move(error);
    return nullptr;
  }
  const std::scoped_lock lock(kept().mutex);
  kept().machine = made;
  return made;
}

// The machine, where it has the device.
std::shared_ptr<Machine> machine_with(int device) {
  auto found = machine();
  if (found == nullptr || (device >= 0 && device < found->device_count())) return found;
  last_error() = "device " + std::to_string(device) + ": there are " + std::to_string(found->device_count());
  return nullptr;
}

int steer_stream(int device, void* stream, bool (Machine::*steer)(int, StreamId)) {
  const auto found = machine_with(device);
  if (found == nullptr) return -1;
  return (found.get()->*steer)(device, reinterpret_cast<StreamId>(stream)) ? 0 : refuse("no such stream of the device");
}

}  // namespace

extern "C" {

#define REPRIEVE_SIM_TEXT(number) #number
#define REPRIEVE_SIM_JOIN(a, b, c) REPRIEVE_SIM_TEXT(a) "." REPRIEVE_SIM_TEXT(b) "." REPRIEVE_SIM_TEXT(c)
const char* reprieve_sim_version(void) {
  return REPRIEVE_SIM_JOIN(REPRIEVE_VERSION_MAJOR, REPRIEVE_VERSION_MINOR, REPRIEVE_VERSION_PATCH);
}

const char* reprieve_sim_last_error(void) { return last_error().c_str(); }

void reprieve_sim_let_go(void) {
  std::shared_ptr<Machine> mine;
  const std::scoped_lock lock(kept().mutex);
  mine.swap(kept().machine);
}

int reprieve_sim_set_capacity(int device, uint64_t bytes) {
  const auto found = machine_with(device);
  if (found != nullptr) found->set_capacity(device, bytes);
  return found != nullptr ? 0 : -1;
}

int reprieve_sim_set_host_capacity(uint64_t bytes) {
  const auto found = machine();
  if (found != nullptr) found->set_host_capacity(bytes);
  return found != nullptr ? 0 : -1;
}

int reprieve_sim_set_foreign_use(int device, uint64_t bytes) {
  const auto found = machine_with(device);
  if (found != nullptr) found->set_foreign_use(device, bytes);
  return found != nullptr ? 0 : -1;
}

uint64_t reprieve_sim_used_bytes(int device) {
  const auto found = machine();
  return found != nullptr ? found->used_bytes(device) : 0;
}

uint64_t reprieve_sim_host_used_bytes(void) {
  const auto found = machine();
  return found != nullptr ? found->host_used_bytes() : 0;
}

uint64_t reprieve_sim_peak_used_bytes(int device) {
  const auto found = machine();
  return found != nullptr ? found->peak_used_bytes(device) : 0;
}

int reprieve_sim_fail(const char* call, uint64_t after, uint64_t times, int code) {
  const auto kind = call != nullptr ? reprieve::simgpu::find_call(call) : std::nullopt;
  if (!kind) return refuse(std::string("'") + (call != nullptr ? call : "") + "' is no call; reprieve_sim_call_name");
  if (code < 1 || code > 999) return refuse("a code is a number of CUresult from 1 to 999");
  const auto found = machine();
  if (found != nullptr) found->fail(*kind, after, times, static_cast<reprieve::simgpu::Code>(code));
  return found != nullptr ? 0 : -1;
}

void reprieve_sim_clear_failures(void) {
  if (const auto found = machine(); found != nullptr) found->clear_failures();
}

uint64_t reprieve_sim_pending_failures(void) {
  const auto found = machine();
  return found != nullptr ? found->pending_failures() : 0;
}

const char* reprieve_sim_call_name(int call) {
  if (call < 0 || static_cast<std::size_t>(call) >= reprieve::simgpu::call_kinds) return nullptr;
  return reprieve::simgpu::call_name(static_cast<reprieve::simgpu::Call>(call));
}

int reprieve_sim_hold(int device, void* stream) { return steer_stream(device, stream, &Machine::hold); }

int reprieve_sim_release(int device, void* stream) { return steer_stream(device, stream, &Machine::resume); }

int reprieve_sim_set_mode(const char* mode) {
  const std::string_view text = mode != nullptr ? mode : "";
  if (text != "eager" && text != "lazy") return refuse("a mode is eager or lazy");
  const auto found = machine();
  if (found != nullptr) found->set_mode(text == "eager" ? Mode::eager : Mode::lazy);
  return found != nullptr ? 0 : -1;
}

const char* reprieve_sim_mode(void) {
  const auto found = machine();
  return found != nullptr && found->mode() == Mode::eager ? "eager" : "lazy";
}

uint64_t reprieve_sim_now_ns(void) {
  const auto found = machine();
  return found != nullptr ? found->now_ns() : 0;
}

void reprieve_sim_advance(uint64_t ns) {
  if (const auto found = machine(); found != nullptr) found->advance(ns);
}

uint64_t reprieve_sim_launches(const char* name_part) {
  const auto found = machine();
  return found != nullptr ? found->launches(name_part != nullptr ? name_part : "") : 0;
}

uint64_t reprieve_sim_calls(const char* call) {
  const auto kind = call != nullptr ? reprieve::simgpu::find_call(call) : std::nullopt;
  const auto found = machine();
  return kind && found != nullptr ? found->calls(*kind) : 0;
}

void reprieve_sim_reset_counters(void) {
  if (const auto found = machine(); found != nullptr) found->reset_counters();
}

uint64_t reprieve_sim_fault_count(void) {
  const auto found = machine();
  return found != nullptr ? found->fault_count() : 0;
}

size_t reprieve_sim_fault(size_t index, char* text, size_t size) {
  const auto found = machine();
  if (found == nullptr) return 0;
  const auto faults = found->faults();
  if (index >= faults.size()) return 0;
  const std::string& whole = faults[index].text;
  if (text != nullptr && size != 0) {
    const std::size_t fits = std::min(whole.size(), size - 1);
    std::memcpy(text, whole.data(), fits);
    text[fits] = '\0';
  }
  return whole.size();
}

void reprieve_sim_clear_faults(void) {
  if (const auto found = machine(); found != nullptr) found->clear_faults();
}

}  // extern "C"
