/* A stand-in for libcupti: hands out buffers of records that are laid out as CUDA 12.9's cupti_activity.h has them.

   The functions fake_* stand for the CUDA calls of a program. */

#include <stdint.h>
#include <stddef.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>

#define PACKED __attribute__((__packed__)) __attribute__((aligned(8)))
#define OK 0
#define INVALID_PARAMETER 1
#define MAX_LIMIT_REACHED 12
#define NOT_COMPATIBLE 40
#define KINDS 64

typedef struct PACKED {
  uint32_t kind; uint8_t cache, shared_config; uint16_t registers; uint32_t partition[2];
  uint64_t start, end, completed; uint32_t device, context, stream;
  int32_t grid[3], block[3], static_shared, dynamic_shared; uint32_t local_thread, local_total, correlation;
  int64_t grid_id; const char *name; void *reserved; uint64_t queued, submitted; uint8_t launch[4];
  uint32_t shared_executed; uint64_t graph_node; uint32_t limit, graph; void *window; uint32_t channel, channel_type;
  uint32_t cluster[3], policy; uint64_t local_total_v2; uint32_t clusters[2];
} Kernel;

typedef struct PACKED {
  uint32_t kind; uint8_t direction, source, target, flags; uint64_t bytes, start, end;
  uint32_t device, context, stream, correlation, runtime_correlation, pad; void *reserved; uint64_t graph_node;
  uint32_t graph, channel, channel_type, pad2; uint64_t copies;
} Copy;

typedef struct PACKED {
  uint32_t kind; uint8_t direction, source, target, flags; uint64_t bytes, start, end;
  uint32_t device, context, stream, source_device, source_context, target_device, target_context, correlation;
  void *reserved; uint64_t graph_node; uint32_t graph, channel, channel_type, pad;
} PeerCopy;

typedef struct PACKED {
  uint32_t kind, value; uint64_t bytes, start, end; uint32_t device, context, stream, correlation;
  uint16_t flags, memory; uint32_t pad; void *reserved; uint64_t graph_node; uint32_t graph, channel, channel_type, pad2;
} Set;

typedef struct PACKED {
  uint32_t kind, number; uint64_t start, end; uint32_t process, thread, correlation, result;
} Api;

typedef void (*Requested)(uint8_t **, size_t *, size_t *);
typedef void (*Completed)(void *, uint32_t, uint8_t *, size_t, size_t);

static Requested requested;
static Completed completed;
static int enabled[KINDS];
static uint8_t *buffer;
static size_t size, used, dropped;
static uint32_t correlation = 100;
static uint64_t device_ns;

/* What a test may set. */
int fake_refusal;          /* result of cuptiActivityEnable */
int fake_hides_kernels;    /* records of kernels vanish without a word */
int fake_has_no_times;     /* kernels end at 0 */
size_t fake_buffer_limit;  /* use no more of a buffer than this */
int fake_buffers_requested;

static uint64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void give_back(void) {
  uint8_t *full = buffer;
  buffer = NULL;
  if (full && completed) completed(NULL, 0, full, size, used);
}

static void put(const void *record, size_t bytes) {
  uint32_t kind = *(const uint32_t *)record;
  size_t limit;
  if (!enabled[kind] || !requested) return;
  limit = fake_buffer_limit && fake_buffer_limit < size ? fake_buffer_limit : size;
  if (buffer && used + bytes > limit) give_back();
  if (!buffer) {
    size_t most = 0;
    used = 0;
    requested(&buffer, &size, &most);
    fake_buffers_requested++;
    if (!buffer) { dropped++; return; }
  }
  memcpy(buffer + used, record, bytes);
  used += bytes;
}

static size_t size_of(uint32_t kind) {
  switch (kind) {
    case 10: return sizeof(Kernel);
    case 1: return sizeof(Copy);
    case 22: return sizeof(PeerCopy);
    case 2: return sizeof(Set);
    default: return sizeof(Api);
  }
}

int cuptiGetResultString(int code, const char **text) {
  *text = code == NOT_COMPATIBLE ? "CUPTI_ERROR_NOT_COMPATIBLE" : "CUPTI_ERROR_OF_FAKE";
  return OK;
}
int cuptiGetVersion(uint32_t *version) { *version = 130500; return OK; }
int cuptiGetTimestamp(uint64_t *time) { *time = now(); return OK; }
int cuptiSetThreadIdType(int type) { return type == 1 ? OK : INVALID_PARAMETER; }
int cuptiGetCallbackName(int domain, uint32_t number, const char **name) {
  static const struct { int domain; uint32_t number; const char *name; } names[] = {
    {2, 211, "cudaLaunchKernel_v7000"}, {1, 307, "cuLaunchKernel"}, {1, 652, "cuLaunchKernelEx"},
    {2, 165, "cudaDeviceSynchronize_v3020"}, {2, 41, "cudaMemcpyAsync_v3020"}, {2, 51, "cudaMemsetAsync_v3020"},
    {2, 311, "cudaGraphLaunch_v10000"}, {2, 272, "cudaStreamBeginCapture_v10000"},
    {2, 274, "cudaStreamEndCapture_v10000"}, {2, 227, "cudaMemcpyPeerAsync_v4000"},
  };
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (names[i].domain == domain && names[i].number == number) { *name = names[i].name; return OK; }
  return INVALID_PARAMETER;
}
int cuptiActivityRegisterCallbacks(Requested r, Completed c) { requested = r; completed = c; return OK; }
int cuptiActivityEnable(uint32_t kind) {
  if (getenv("FAKE_CUPTI_REFUSES")) return NOT_COMPATIBLE;
  if (fake_refusal) return fake_refusal;
  enabled[kind] = 1;
  return OK;
}
int cuptiActivityDisable(uint32_t kind) { enabled[kind] = 0; return OK; }
int cuptiActivityFlushAll(uint32_t flag) { (void)flag; give_back(); return OK; }
int cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *count) {
  (void)context; (void)stream;
  *count = dropped;
  dropped = 0;
  return OK;
}
int cuptiActivityGetNextRecord(uint8_t *start, size_t valid, uint8_t **record) {
  uint8_t *next = *record ? *record + size_of(*(uint32_t *)*record) : start;
  if (next >= start + valid) return MAX_LIMIT_REACHED;
  *record = next;
  return OK;
}

static uint32_t call(uint32_t kind, uint32_t number, uint64_t length, uint32_t result) {
  Api record = {kind, number, now(), 0, (uint32_t)getpid(), (uint32_t)syscall(SYS_gettid), ++correlation, result};
  struct timespec wait = {0, (long)length};
  nanosleep(&wait, NULL);
  record.end = now();
  put(&record, sizeof record);
  return record.correlation;
}

static uint64_t run(uint64_t length, uint64_t *end) {
  uint64_t start = now();
  if (start < device_ns) start = device_ns;
  device_ns = start + length + 100;
  *end = start + length;
  return start;
}

static void kernel(const char *name, int grid, int block, uint64_t length, uint32_t correlated, uint64_t node) {
  Kernel record;
  if (fake_hides_kernels) return;
  memset(&record, 0, sizeof record);
  record.kind = 10;
  record.registers = 32;
  record.start = run(length, &record.end);
  if (fake_has_no_times) record.start = record.end = 0;
  record.stream = 7;
  record.grid[0] = grid; record.grid[1] = record.grid[2] = 1;
  record.block[0] = block; record.block[1] = record.block[2] = 1;
  record.static_shared = 16; record.dynamic_shared = 48;
  record.correlation = correlated;
  record.name = name;
  record.graph_node = node;
  record.cluster[0] = 2;
  put(&record, sizeof record);
}

/* A launch through the runtime, within which the runtime calls the driver. */
void fake_launch(const char *name, int grid, int block, uint64_t length) {
  Api outer = {5, 211, now(), 0, (uint32_t)getpid(), (uint32_t)syscall(SYS_gettid), ++correlation, 0};
  uint32_t inner = call(4, 307, 1, 0);
  outer.end = now();
  put(&outer, sizeof outer);
  kernel(name, grid, block, length, inner, 0);
}
void fake_launch_by_driver(const char *name, int grid, int block, uint64_t length) {
  kernel(name, grid, block, length, call(4, 652, 1, 0), 0);
}
void fake_failed_launch(void) { call(5, 211, 1, 9); }
void fake_captured_launch(void) { call(5, 272, 1, 0); call(5, 211, 1, 0); call(5, 274, 1, 0); }
void fake_graph_launch(const char *name, int nodes, uint64_t length) {
  uint32_t correlated = call(5, 311, 1, 0);
  for (int i = 0; i < nodes; i++) kernel(name, 1, 32, length, correlated, (uint64_t)(900 + i));
}
void fake_copy(int direction, uint64_t bytes, uint64_t length) {
  Copy record;
  memset(&record, 0, sizeof record);
  record.kind = 1;
  record.direction = (uint8_t)direction; record.source = 2; record.target = 3;
  record.bytes = bytes;
  record.stream = 9;
  record.correlation = call(5, 41, 1, 0);
  record.start = run(length, &record.end);
  put(&record, sizeof record);
}
void fake_peer_copy(uint64_t bytes, uint64_t length) {
  PeerCopy record;
  memset(&record, 0, sizeof record);
  record.kind = 22;
  record.direction = 10; record.source = record.target = 3;
  record.bytes = bytes;
  record.source_device = 0; record.target_device = 1;
  record.correlation = call(5, 227, 1, 0);
  record.start = run(length, &record.end);
  put(&record, sizeof record);
}
void fake_set(uint64_t bytes, uint64_t length) {
  Set record;
  memset(&record, 0, sizeof record);
  record.kind = 2;
  record.bytes = bytes;
  record.correlation = call(5, 51, 1, 0);
  record.start = run(length, &record.end);
  put(&record, sizeof record);
}
void fake_synchronize(uint64_t length) { call(5, 165, length, 0); }
void fake_drop(size_t records) { dropped += records; }

/* What torch.profiler does to another user of CUPTI: it takes the records over, and turns them off at its end. */
static uint8_t foreign[1 << 20];
static void foreign_request(uint8_t **memory, size_t *bytes, size_t *most) {
  *memory = foreign; *bytes = sizeof foreign; *most = 0;
}
static void foreign_complete(void *context, uint32_t stream, uint8_t *memory, size_t bytes, size_t valid) {
  (void)context; (void)stream; (void)memory; (void)bytes; (void)valid;
}
void fake_other_profiler_starts(void) { cuptiActivityRegisterCallbacks(foreign_request, foreign_complete); }
void fake_other_profiler_ends(void) {
  cuptiActivityFlushAll(1);
  memset(enabled, 0, sizeof enabled);
}

const size_t fake_sizes[] = {sizeof(Kernel), sizeof(Copy), sizeof(PeerCopy), sizeof(Set), sizeof(Api)};

__attribute__((destructor)) static void call_at_exit(void) {
  if (!getenv("FAKE_CUPTI_CALLS_AT_EXIT")) return;
  fake_synchronize(1);
  fprintf(stderr, "called at exit, %d enabled\n", enabled[5]);
}
