// Python's GIL, where the process has a Python: found at run time, since C++ trainers have none.
#pragma once

namespace reprieve::torch_adapter {

// Lets go of the GIL if the calling thread holds it; the result is for take_gil(). Null: nothing was let go.
void* let_go_of_gil();
void take_gil(void* token);

}  // namespace reprieve::torch_adapter
