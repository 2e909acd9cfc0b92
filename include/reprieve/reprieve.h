/* reprieve: a caching allocator for CUDA memory. This C interface is the library's ABI (docs/abi.md).
 *
 * Conventions
 * - Sizes are bytes. `device` is a CUDA ordinal. A stream is a CUstream or cudaStream_t; NULL and cudaStreamLegacy are
 *   the legacy default stream, cudaStreamPerThread is the calling thread's own.
 * - Every function may be called from any thread at any time, except where it says otherwise. None changes the
 *   caller's current context. None may be called in a forked child of a process that has used the library: there every
 *   call returns REPRIEVE_ERROR_NOT_SUPPORTED and touches nothing (CUDA itself does not survive fork).
 * - A call that fails changes nothing, and leaves its one-line reason in reprieve_last_error() of the calling thread.
 * - Structures that cross this interface begin with their size, filled in by the caller with sizeof: a library newer
 *   than the caller's header fills only what the caller knows.
 */
#ifndef REPRIEVE_REPRIEVE_H
#define REPRIEVE_REPRIEVE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define REPRIEVE_VERSION_MAJOR 0
#define REPRIEVE_VERSION_MINOR 1
#define REPRIEVE_VERSION_PATCH 0

#if defined(__GNUC__)
#define REPRIEVE_API __attribute__((visibility("default")))
#else
#define REPRIEVE_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct CUstream_st* reprieve_stream; /* the same type as CUstream and cudaStream_t */
typedef uint64_t reprieve_pool;              /* 0: the default pool of each stream */

typedef enum reprieve_status {
  REPRIEVE_OK = 0,
  REPRIEVE_ERROR_OUT_OF_MEMORY = 1,    /* device memory; the only code that a recovery may cure */
  REPRIEVE_ERROR_INVALID_ARGUMENT = 2, /* the caller's mistake */
  REPRIEVE_ERROR_DEVICE = 3,           /* the driver's own error, see reprieve_last_driver_error() */
  REPRIEVE_ERROR_NOT_SUPPORTED = 4,    /* no or too old a driver, a second copy of the library, a forked child */
  REPRIEVE_ERROR_HOST_MEMORY = 5       /* the process cannot get ordinary memory */
} reprieve_status;

/* ---- the library ------------------------------------------------------------------------------------------------ */

/* "MAJOR.MINOR.PATCH" of the loaded library. Never fails. */
REPRIEVE_API const char* reprieve_version(void);

/* The kind of a status: "out of memory". Never fails, also for a number that is none. */
REPRIEVE_API const char* reprieve_status_string(reprieve_status status);

/* One line on the calling thread's last failure; "" if there was none. Valid until the thread's next call. */
REPRIEVE_API const char* reprieve_last_error(void);

/* The CUresult behind the calling thread's last failure, 0 where the driver had no part in it. */
REPRIEVE_API int reprieve_last_driver_error(void);

/* Reads REPRIEVE_* variables and opens the driver. Optional: the first call that needs a device does it. Repeating it
 * is harmless. A failed start leaves nothing behind and may be repeated. */
REPRIEVE_API reprieve_status reprieve_init(void);

/* 1 while the library runs (after a start, before a shutdown, not in a forked child), else 0. */
REPRIEVE_API int reprieve_is_started(void);

/* Gives everything back and forgets every option set. Refused (invalid argument) while blocks are live. Waits for
 * queued work that may touch free memory. No other call may run at the same time. */
REPRIEVE_API reprieve_status reprieve_shutdown(void);

/* ---- options (docs/options.md) ---------------------------------------------------------------------------------- */

typedef struct reprieve_option_info {
  size_t size;
  const char* name;          /* "limit" */
  const char* environment;   /* "REPRIEVE_LIMIT" */
  const char* type;          /* "size", "fraction", "integer", "duration", "choice" */
  const char* default_value; /* as one would write it */
  const char* accepted;      /* "0, or a size from 2MiB up, or a fraction of the device such as 0.8" */
  const char* text;          /* what it does */
} reprieve_option_info;

/* Before the library has started. An explicit value wins over the environment's. */
REPRIEVE_API reprieve_status reprieve_set_option(const char* name, const char* value);

/* index in [0, number of options); beyond it invalid argument. The strings live as long as the library. */
REPRIEVE_API reprieve_status reprieve_get_option_info(size_t index, reprieve_option_info* out);

/* ---- allocation ------------------------------------------------------------------------------------------------- */

REPRIEVE_API reprieve_status reprieve_device_count(int* out);

/* A block of at least `bytes` bytes, aligned to 512, for use on `stream`. 0 bytes: success and NULL.
 * May wait for the GPU only where it would otherwise fail. */
REPRIEVE_API reprieve_status reprieve_alloc(void** out, size_t bytes, int device, reprieve_stream stream);

/* The same from a pool of reprieve_pool_create (0: the default pool). */
REPRIEVE_API reprieve_status reprieve_alloc_in_pool(void** out, size_t bytes, int device, reprieve_stream stream,
                                                    reprieve_pool pool);

/* A block of at least `bytes` bytes at exactly `ptr`: for putting a graph's pool back to a state that it was in before.
 * The addresses must be free memory of that pool, or have been before it was regrouped; else invalid argument. */
REPRIEVE_API reprieve_status reprieve_alloc_at(void* ptr, size_t bytes, int device, reprieve_stream stream,
                                               reprieve_pool pool);

/* Frees a block: reusable at once on the stream that it was allocated for, elsewhere when work queued there has ended.
 * NULL is ignored. A pointer that is no live block's beginning is an invalid argument; nothing is harmed. */
REPRIEVE_API reprieve_status reprieve_dealloc(void* ptr);

/* The same for a block last used on `stream`: not reused before the work now queued on that stream has ended. */
REPRIEVE_API reprieve_status reprieve_dealloc_on(void* ptr, reprieve_stream stream);

/* Says that work on `stream` uses the block: when it is freed, it waits for the work queued there at that time. */
REPRIEVE_API reprieve_status reprieve_record_stream(void* ptr, reprieve_stream stream);

/* The two functions for torch.cuda.memory.CUDAPluggableAllocator. A failure throws std::runtime_error (torch checks no
 * NULL): an out-of-memory with the beginning of torch's text, "CUDA out of memory. Tried to allocate …". For C++
 * callers only. reprieve_free never throws; an error is logged and counted. */
REPRIEVE_API void* reprieve_malloc(ssize_t bytes, int device, reprieve_stream stream);
REPRIEVE_API void reprieve_free(void* ptr, ssize_t bytes, int device, reprieve_stream stream);

/* ---- pools ------------------------------------------------------------------------------------------------------ */

enum { REPRIEVE_POOL_GRAPH = 1 }; /* memory that captured graphs use: its addresses stay backed until it is destroyed */

/* A pool apart from the default one: its memory is shared with no other. */
REPRIEVE_API reprieve_status reprieve_pool_create(int device, unsigned flags, reprieve_pool* out);

/* Live blocks stay valid; the pool's memory goes back as they are freed, that of a graph pool when all work queued by
 * now is over, on whatever stream the graph was replayed. */
REPRIEVE_API reprieve_status reprieve_pool_destroy(int device, reprieve_pool pool);

/* To be called around the capture of a graph on streams that the library may not have heard of: in between it records
 * no event of the whole context, which would spoil the capture. Calls are counted. */
REPRIEVE_API reprieve_status reprieve_capture_begin(int device);
REPRIEVE_API reprieve_status reprieve_capture_end(int device);

/* ---- memory held ------------------------------------------------------------------------------------------------ */

/* Gives all free memory back to the driver, or (trim) until at most keep_bytes are reserved. Waits for queued work that
 * may still touch it. Memory of streams that are capturing, of graph pools, and pinned backing stays. device -1: all. */
REPRIEVE_API reprieve_status reprieve_empty_cache(int device);
REPRIEVE_API reprieve_status reprieve_trim(int device, size_t keep_bytes);

/* The most that may be reserved on the device, as if it had no more; 0: no limit. May be changed at any time; what is
 * reserved beyond a lower limit goes back as far as it is free and idle, and growth is refused meanwhile. */
REPRIEVE_API reprieve_status reprieve_set_limit(int device, size_t bytes);
REPRIEVE_API reprieve_status reprieve_get_limit(int device, size_t* out);

/* The chunks under a live block are never again moved to other addresses or other memory (registered or exported). */
REPRIEVE_API reprieve_status reprieve_pin_backing(void* ptr);

/* Kernels of device `peer` may use all memory of `device` from now on, as after cudaDeviceEnablePeerAccess, which does
 * nothing for mapped memory. It cannot be taken back. Calling it again is harmless. */
REPRIEVE_API reprieve_status reprieve_enable_peer_access(int device, int peer);

/* ---- what is happening ------------------------------------------------------------------------------------------ */

/* current = allocated - freed; peak since the last reset. Exact over all threads. */
typedef struct reprieve_counter {
  int64_t current, peak, allocated, freed;
} reprieve_counter;

enum { REPRIEVE_CALL_KINDS = 21 }; /* reprieve_call_name(0 … 20) */

/* The counters of reprieve_stats for blocks of one kind. Memory that is regrouped for blocks of the other kind counts as
 * freed by its kind and allocated by the other one; what is on its way back to the driver still counts. */
typedef struct reprieve_kind_stats {
  reprieve_counter requested_bytes;
  reprieve_counter allocated_bytes;
  reprieve_counter active_bytes;
  reprieve_counter inactive_split_bytes;
  reprieve_counter reserved_bytes;
  reprieve_counter allocations;
  reprieve_counter active_blocks;
  reprieve_counter inactive_split_blocks;
  reprieve_counter segments;
} reprieve_kind_stats;

typedef struct reprieve_stats {
  size_t size;
  reprieve_counter requested_bytes;      /* as asked for */
  reprieve_counter allocated_bytes;      /* rounded to 512 */
  reprieve_counter active_bytes;         /* allocated, and freed but still in use on another stream */
  reprieve_counter inactive_split_bytes; /* free, in a segment that is partly in use */
  reprieve_counter reserved_bytes;       /* taken from the driver */
  reprieve_counter allocations;          /* blocks */
  reprieve_counter active_blocks;
  reprieve_counter inactive_split_blocks;
  reprieve_counter segments;                 /* contiguous backed ranges */
  int64_t alloc_retries;                     /* allocations that had to wait for memory or take another stream's */
  int64_t ooms;                              /* allocations that failed */
  int64_t invalid_frees;                     /* pointers that were no live block's; strays count on every device */
  int64_t harvested_chunks, harvested_bytes; /* free memory regrouped under new addresses */
  int64_t limbo_bytes;                       /* stale mappings that queued work may still use */
  int64_t address_space_bytes;               /* reserved addresses */
  int64_t driver_calls[REPRIEVE_CALL_KINDS];
  int64_t driver_ns;         /* time in the driver: measured, or the cost model's on the simulated device */
  int64_t driver_wall_ns;    /* the same by the host's clock */
  reprieve_kind_stats small; /* blocks of up to 1 MiB, rounded; the rest are large, and both together are all */
  reprieve_kind_stats large;
} reprieve_stats;

REPRIEVE_API reprieve_status reprieve_get_stats(int device, reprieve_stats* out);
REPRIEVE_API reprieve_status reprieve_reset_peak_stats(int device);
REPRIEVE_API reprieve_status reprieve_reset_accumulated_stats(int device); /* allocated and freed start again from 0 */

/* The name of a driver call kind, NULL beyond the last. */
REPRIEVE_API const char* reprieve_call_name(int kind);

typedef struct reprieve_segment_info {
  size_t size;
  void* address;
  size_t bytes;
  int device;
  reprieve_stream stream;
  reprieve_pool pool;
  int large;     /* 1: for blocks of more than 1 MiB, 0: for smaller ones */
  size_t blocks; /* free ones included */
} reprieve_segment_info;

enum {
  REPRIEVE_BLOCK_FREE = 0,
  REPRIEVE_BLOCK_LIVE = 1,
  REPRIEVE_BLOCK_DEFERRED = 2 /* freed, and still in use on another stream */
};

typedef struct reprieve_block_info {
  size_t size;
  void* address;
  size_t bytes;
  size_t requested;     /* 0 where it is free */
  int state;            /* REPRIEVE_BLOCK_… */
  size_t other_streams; /* that a live block was said to be used on: its free waits for them */
} reprieve_block_info;

/* Shows every segment of the device, each followed by its blocks in the order of addresses. The functions run under
 * every lock of the device: they may not call the library, nor wait for a thread that does. */
typedef struct reprieve_visitor {
  size_t size;
  void* user;
  void (*segment)(void* user, const reprieve_segment_info* segment);
  void (*block)(void* user, const reprieve_block_info* block);
} reprieve_visitor;
REPRIEVE_API reprieve_status reprieve_visit(int device, const reprieve_visitor* visitor);

/* A live block, and the segment that it lies in; `segment` may be NULL. */
REPRIEVE_API reprieve_status reprieve_get_block_info(void* ptr, reprieve_block_info* block,
                                                     reprieve_segment_info* segment);

/* Recounts every record of the device from scratch and compares; a difference is REPRIEVE_ERROR_DEVICE with the first
 * one named. Holds every lock: for tests and for bug reports. */
REPRIEVE_API reprieve_status reprieve_validate(int device);

/* ---- hooks ------------------------------------------------------------------------------------------------------ */

/* What an adapter to a framework does for the library, which knows no torch and no Python. Any function may be NULL.
 * They are called from whatever thread is in the library, so they must be thread-safe. */
typedef struct reprieve_hooks {
  size_t size;
  void* user;

  /* A request found no free memory: free what can be freed now. No lock is held; what it allocates itself does not call
   * it again. */
  void (*collect)(void* user, int device);

  /* A piece of a segment became memory of a pool (backed 1), or ceased to be (0): always whole pieces. Called under
   * locks: it may not call the library, wait for a thread that does, or take Python's GIL. */
  void (*segment)(void* user, int device, int backed, void* address, size_t bytes, reprieve_stream stream,
                  reprieve_pool pool);

  /* A block that was freed while other streams still used it is free memory now. Called under locks, as segment(). */
  void (*deferred_free)(void* user, int device, void* address);

  /* Around every wait for the GPU, no lock held: to let go of Python's GIL. wait_end gets what wait_begin returned. */
  void* (*wait_begin)(void* user);
  void (*wait_end)(void* user, void* token);
} reprieve_hooks;

/* One table for the process; it is copied. NULL: none. No other call may run at the same time. It outlives a shutdown. */
REPRIEVE_API reprieve_status reprieve_set_hooks(const reprieve_hooks* hooks);

/* ---- streams ---------------------------------------------------------------------------------------------------- */

/* To be called before a stream that was named to the library is destroyed: waits for its work, and never names it to
 * the driver again (a driver that is asked about a destroyed stream may crash). Its memory serves other streams from
 * then on. torch's streams are never destroyed and need none of this. */
REPRIEVE_API reprieve_status reprieve_forget_stream(int device, reprieve_stream stream);

/* For programs without the CUDA runtime, benchmarks and the simulated device. Destroying forgets the stream first. */
REPRIEVE_API reprieve_status reprieve_stream_create(int device, reprieve_stream* out);
REPRIEVE_API reprieve_status reprieve_stream_destroy(int device, reprieve_stream stream);
REPRIEVE_API reprieve_status reprieve_stream_synchronize(int device, reprieve_stream stream);

#ifdef __cplusplus
}
#endif
#endif
