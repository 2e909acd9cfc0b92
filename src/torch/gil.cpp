#include "torch/gil.hpp"

#include <dlfcn.h>

namespace reprieve::torch_adapter {
namespace {

struct Python {
  int (*is_initialized)() = nullptr;
  int (*holds_gil)() = nullptr;
  void* (*save_thread)() = nullptr;
  void (*restore_thread)(void*) = nullptr;

  Python() {
    find(is_initialized, "Py_IsInitialized");
    find(holds_gil, "PyGILState_Check");
    find(save_thread, "PyEval_SaveThread");
    find(restore_thread, "PyEval_RestoreThread");
  }
  bool usable() const {
    return is_initialized != nullptr && holds_gil != nullptr && save_thread != nullptr && restore_thread != nullptr;
  }

 private:
  template <typename F>
  static void find(F& out, const char* name) {
    out = reinterpret_cast<F>(dlsym(RTLD_DEFAULT, name));
  }
};

// Looked for when a thread first waits: by then an interpreter that will ever call us has been loaded.
const Python& python() {
  static const Python found;
  return found;
}

}  // namespace

void* let_go_of_gil() {
  const Python& py = python();
  if (!py.usable() || py.is_initialized() == 0 || py.holds_gil() == 0) return nullptr;
  return py.save_thread();
}

void take_gil(void* token) {
  if (token != nullptr) python().restore_thread(token);
}

}  // namespace reprieve::torch_adapter
