/* Steers the simulated GPUs of this process (libreprieve_simgpu.so), for tests and rehearsals.
 *
 * Every function may be called from any thread, takes no virtual time, and acts on the machine that libreprieve's device
 * `sim` and the stand-in CUDA libraries of the process use. Where there is none yet, it is made from the REPRIEVE_SIM_*
 * variables and kept until reprieve_sim_let_go(). Functions that return int return 0 on success and -1 where the
 * arguments (or those variables) are not acceptable; reprieve_sim_last_error() then says why, for the calling thread.
 * Streams are the values of CUstream and cudaStream_t: 0 and 1 are the legacy default stream, 2 the calling thread's.
 *
 * In a child forked from a process with a machine nothing works but reading counters, as CUDA has it. */
#ifndef REPRIEVE_SIM_H
#define REPRIEVE_SIM_H

#include <stddef.h>
#include <stdint.h>

#define REPRIEVE_SIM_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

/* "MAJOR.MINOR.PATCH". */
REPRIEVE_SIM_API const char* reprieve_sim_version(void);
REPRIEVE_SIM_API const char* reprieve_sim_last_error(void);
/* Ends this interface's own hold on the machine. The machine goes when all others let go as well. */
REPRIEVE_SIM_API void reprieve_sim_let_go(void);

/* Memory, in bytes. A capacity may be below what is in use: then nothing more is given out. Foreign use is what
 * something outside the program holds of a device. */
REPRIEVE_SIM_API int reprieve_sim_set_capacity(int device, uint64_t bytes);
REPRIEVE_SIM_API int reprieve_sim_set_host_capacity(uint64_t bytes);
REPRIEVE_SIM_API int reprieve_sim_set_foreign_use(int device, uint64_t bytes);
REPRIEVE_SIM_API uint64_t reprieve_sim_used_bytes(int device);
REPRIEVE_SIM_API uint64_t reprieve_sim_host_used_bytes(void);
/* Since the machine was made, or the last reset of the counters. */
REPRIEVE_SIM_API uint64_t reprieve_sim_peak_used_bytes(int device);

/* After `after` more calls of the kind ("create", "malloc", "launch", ...: reprieve_sim_call_name) the next `times` fail
 * with `code`, a number of CUresult. Rules for one kind work one after the other. */
REPRIEVE_SIM_API int reprieve_sim_fail(const char* call, uint64_t after, uint64_t times, int code);
REPRIEVE_SIM_API void reprieve_sim_clear_failures(void);
REPRIEVE_SIM_API uint64_t reprieve_sim_pending_failures(void);
/* The kinds of calls by number, from 0; null behind the last. */
REPRIEVE_SIM_API const char* reprieve_sim_call_name(int call);

/* While a stream is held nothing on it runs. */
REPRIEVE_SIM_API int reprieve_sim_hold(int device, void* stream);
REPRIEVE_SIM_API int reprieve_sim_release(int device, void* stream);

/* "eager" or "lazy". */
REPRIEVE_SIM_API int reprieve_sim_set_mode(const char* mode);
REPRIEVE_SIM_API const char* reprieve_sim_mode(void);
/* Virtual time, in nanoseconds. */
REPRIEVE_SIM_API uint64_t reprieve_sim_now_ns(void);
REPRIEVE_SIM_API void reprieve_sim_advance(uint64_t ns);

/* Kernels launched whose name contains `name_part` ("" for all), those of launched graphs included. */
REPRIEVE_SIM_API uint64_t reprieve_sim_launches(const char* name_part);
/* Driver calls of a kind, failed ones included. */
REPRIEVE_SIM_API uint64_t reprieve_sim_calls(const char* call);
/* Launches and calls start again at 0, peaks at what is in use. */
REPRIEVE_SIM_API void reprieve_sim_reset_counters(void);

/* What the program did wrong: how many times in all, and the text of the first 1,000. `reprieve_sim_fault` writes at
 * most `size` bytes, the terminating 0 included, and returns the text's whole length; 0 where there is no such fault. */
REPRIEVE_SIM_API uint64_t reprieve_sim_fault_count(void);
REPRIEVE_SIM_API size_t reprieve_sim_fault(size_t index, char* text, size_t size);
REPRIEVE_SIM_API void reprieve_sim_clear_faults(void);

/* For libreprieve.so alone, which loads this library when its option `device` is `sim`: a reprieve::device::Backend, or
 * null and one line in `error`. Refused where the two libraries are not of one version and one build of Options. */
REPRIEVE_SIM_API void* reprieve_sim_open_backend(const char* version, const void* options, size_t options_bytes,
                                                 char* error, size_t error_bytes);

#ifdef __cplusplus
}
#endif
#endif
