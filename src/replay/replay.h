/* Replays a recorded run of allocations through the C interface (include/reprieve/reprieve.h) and measures it. The
 * command `reprieve replay` is a thin layer over this file; docs/replay.md says what a trace looks like and what each
 * number means.
 *
 * A run starts the library, so it needs a process in which nothing else has started it, and one thread at a time.
 * Structures begin with their size, filled in by the caller with sizeof.
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
} reprieve_replay_error;

typedef struct reprieve_replay_trace_info {
  size_t size;
  uint64_t events;
  uint64_t streams;              /* different stream ids */
  uint64_t first_event_line;     /* event i (from 0) stands on line first_event_line + i */
  uint64_t peak_requested_bytes; /* the most that is live at once, as requested */
  uint64_t duration_us;          /* from the first event to the last, as recorded */
} reprieve_replay_trace_info;

typedef struct reprieve_replay_config {
  size_t size;
  const char* device;      /* "sim" or "cuda"; ordinal 0 is used */
  uint64_t limit_bytes;    /* 0: no limit */
  uint64_t capacity_bytes; /* of the simulated card; 0: the option's default */
  int32_t repeats;         /* from 1 up: fresh starts of which the median is reported */
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
} reprieve_replay_result;

/* Checks the `length` bytes of CSV at `text` and keeps what a replay needs of them; `text` may go afterwards. OK: *out
 * is a trace for reprieve_replay_trace_free. Else *error, which may be NULL here and below, says why not. */
REPRIEVE_API int reprieve_replay_parse(const char* text, size_t length, reprieve_replay_trace** out,
                                       reprieve_replay_error* error);
REPRIEVE_API void reprieve_replay_trace_free(reprieve_replay_trace* trace);
REPRIEVE_API void reprieve_replay_trace_describe(const reprieve_replay_trace* trace, reprieve_replay_trace_info* out);

/* Replays under config->limit_bytes. Running out of memory is a result (completed 0), not an error. OK: *out
 * is filled. Else *error says what was refused, or which call failed and why. The library is shut down again in every case. */
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
