/* Replays a recorded run of allocations through the C interface (include/reprieve/reprieve.h), or through a model of
 * one of PyTorch's allocator policies, and measures it. The command `reprieve replay` is a thin layer over this file;
 * docs/replay.md says what a trace looks like and what each number means, docs/models.md what the models are.
 *
 * A run with policy "reprieve" starts the library, so it needs a process in which nothing else has started it, and one
 * thread at a time. A model needs neither. Structures begin with their size, filled in by the caller with sizeof.
 */
#ifndef REPRIEVE_REPLAY_H
#define REPRIEVE_REPLAY_H

#include <reprieve/reprieve.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct reprieve_replay_trace reprieve_replay_trace;

/* What the functions below return. */
enum {
  REPRIEVE_REPLAY_OK = 0,
  REPRIEVE_REPLAY_FAILED = 1, /* a call of the library failed */
  REPRIEVE_REPLAY_REFUSED = 2 /* the trace or the configuration is not acceptable */
};

typedef struct reprieve_replay_error {
  size_t size;
  uint64_t line;  /* of the trace, from 1; 0 where the failure is not a line's */
  char text[400]; /* one line, no newline: what is wrong, what is accepted */
  int64_t event;  /* of reprieve_replay_from_events, from 0; -1 where the failure is not an event's */
} reprieve_replay_error;

/* What an event does. */
enum {
  REPRIEVE_REPLAY_ALLOCATE = 0,   /* a block for use on `stream` */
  REPRIEVE_REPLAY_FREE = 1,       /* after a last use on `stream`; the block's own stream: reusable there at once */
  REPRIEVE_REPLAY_RECORD = 2,     /* work on `stream` uses the block (record_stream) */
  REPRIEVE_REPLAY_EMPTY_CACHE = 3 /* the program asks that all free memory be given back (empty_cache) */
};

/* Flags of an event that allocates. */
enum { REPRIEVE_REPLAY_GRAPH_POOL = 1 }; /* `pool` is one that captured graphs use */

typedef struct reprieve_replay_event {
  uint64_t id;      /* names the block from its allocation to its free, after which another one may have it; empty
                       cache: 0, as bytes and stream */
  uint64_t bytes;   /* allocate: as requested; free: the block's, or 0 for 'whatever it has'; record: 0 */
  uint64_t stream;  /* 0: the legacy default stream; any other number is a stream of its own */
  uint64_t time_us; /* from the run's beginning; never goes back. What was live before the run: allocated at 0 */
  uint32_t pool;    /* allocate: 0, or the number of a private pool; else ignored. A pool lives as long as the trace */
  uint16_t op;      /* REPRIEVE_REPLAY_ALLOCATE … */
  uint16_t flags;   /* allocate: REPRIEVE_REPLAY_GRAPH_POOL or 0, the same for all blocks of a pool; else 0 */
} reprieve_replay_event;

typedef struct reprieve_replay_trace_info {
  size_t size;
  uint64_t events;
  uint64_t streams;              /* different stream ids */
  uint64_t first_event_line;     /* event i (from 0) stands on line first_event_line + i; 0: there are no lines */
  uint64_t peak_requested_bytes; /* the most that is live at once, as requested */
  uint64_t duration_us;          /* from the first event to the last, as recorded */
  uint64_t pools;                /* different private pools */
} reprieve_replay_trace_info;

/* One interval of a run, for a picture of it. Intervals follow one another and leave nothing out. */
typedef struct reprieve_replay_sample {
  uint64_t event;     /* the first one at which `requested` was reached, from 0 */
  uint64_t time_us;   /* of that event, as recorded, from the trace's first event */
  uint64_t requested; /* the most bytes that were live in the interval, as requested */
  uint64_t reserved;  /* the most bytes that were taken from the driver in the interval */
} reprieve_replay_sample;

typedef struct reprieve_replay_config {
  size_t size;
  const char* device;      /* "sim" or "cuda"; ordinal 0 is used */
  uint64_t limit_bytes;    /* 0: no limit */
  uint64_t capacity_bytes; /* of the simulated card; 0: the option's default */
  int32_t repeats;         /* from 1 up: fresh starts of which the median is reported */
  const char* policy;      /* "reprieve" (also NULL); "native" or "expandable": models, with device "sim" only */
  const char* alloc_conf;  /* models: as PyTorch reads it from PYTORCH_CUDA_ALLOC_CONF, NULL: nothing set. Whether
                              segments are expandable is the policy's to say, the key has no say here */
  reprieve_replay_sample* samples; /* room for `sample_capacity` intervals, which a run beside the timed ones fills */
  size_t sample_capacity;          /* 0: none wanted; else 2 or more */
} reprieve_replay_config;

typedef struct reprieve_replay_result {
  size_t size;
  int32_t completed;                     /* 0: ran out of memory at event failed_at_event */
  int64_t failed_at_event;               /* from 0, -1 where completed */
  uint64_t peak_reserved_bytes;          /* first pass */
  uint64_t min_limit_bytes;              /* reprieve_replay_min_limit only; 0: none found */
  double ns_per_event;                   /* wall clock of the first pass without the driver's calls, over its events */
  double ns_per_event_second_pass;       /* the same for a second pass over the memory that the first one left */
  double total_ns_per_event;             /* the driver's calls included */
  double total_ns_per_event_second_pass; /* the driver's calls included */
  double driver_us;                      /* in the driver, first pass; the cost model's on "sim" */
  double teardown_driver_us;             /* in the driver, giving everything back afterwards */
  int64_t driver_calls[REPRIEVE_CALL_KINDS]; /* first pass */
  int64_t cuda_malloc_calls;                 /* first pass, models: calls of cudaMalloc */
  int64_t cuda_free_calls;                   /* first pass, models: calls of cudaFree */
  int64_t alloc_retries;                     /* first pass: allocations that did not succeed at the first try */
  uint64_t samples;                          /* intervals filled; where memory ran out, the last is that event alone */
} reprieve_replay_result;

/* What a string for PYTORCH_CUDA_ALLOC_CONF says on what a policy's name decides here. */
typedef struct reprieve_replay_alloc_conf_info {
  size_t size;
  int32_t expandable_segments; /* 1: True; 0: False; -1: not mentioned */
} reprieve_replay_alloc_conf_info;

/* Checks the `length` bytes of CSV at `text` and keeps what a replay needs of them; `text` may go afterwards. OK: *out
 * is a trace for reprieve_replay_trace_free. Else *error, which may be NULL here and below, says why not. */
REPRIEVE_API int reprieve_replay_parse(const char* text, size_t length, reprieve_replay_trace** out,
                                       reprieve_replay_error* error);

/* The same from `count` events in memory, which may go afterwards; error->event names the one that is refused. */
REPRIEVE_API int reprieve_replay_from_events(const reprieve_replay_event* events, size_t count,
                                             reprieve_replay_trace** out, reprieve_replay_error* error);
REPRIEVE_API void reprieve_replay_trace_free(reprieve_replay_trace* trace);
REPRIEVE_API void reprieve_replay_trace_describe(const reprieve_replay_trace* trace, reprieve_replay_trace_info* out);

/* Reads such a string as PyTorch 2.11 does. OK: *out is filled. Else *error says what is wrong with it. */
REPRIEVE_API int reprieve_replay_check_alloc_conf(const char* text, reprieve_replay_alloc_conf_info* out,
                                                  reprieve_replay_error* error);

/* Replays under config->limit_bytes. Running out of memory is a result (completed 0), not an error. OK: *out
 * is filled. Else *error says what was refused, or which call failed and why. The library is shut down again in every
 * case. Times per event are NaN for a model: its own speed says nothing about PyTorch's. */
REPRIEVE_API int reprieve_replay_run(const reprieve_replay_trace* trace, const reprieve_replay_config* config,
                                     reprieve_replay_result* out, reprieve_replay_error* error);

/* Replays without a limit as above, then looks for the smallest limit under which the trace completes, by bisection
 * over 2 MiB pages from the requested peak up to 1.3 x that (or what the run without a limit reserved, if more).
 * The result is run once more to make sure. config->limit_bytes must be 0. Where no limit in that range completes,
 * min_limit_bytes is 0, completed is 0 and failed_at_event is that of the largest limit tried. */
REPRIEVE_API int reprieve_replay_min_limit(const reprieve_replay_trace* trace, const reprieve_replay_config* config,
                                           reprieve_replay_result* out, reprieve_replay_error* error);

#ifdef __cplusplus
}
#endif
#endif
