/* A CUPTI and a CUDA driver in one library: launches that a test asks for call back and leave records, as CUDA 13.0's
   headers lay them out. Nothing runs. Tests set REFUSES to make the subscription fail, and LOSES to leave records out. */
#include <elf.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef void (*Callback)(void *, int, uint32_t, const void *);
typedef void (*Requested)(uint8_t **, size_t *, size_t *);
typedef void (*Completed)(void *, uint32_t, uint8_t *, size_t, size_t);

enum { MOST = 65536, RECORD_BYTES = 256 };
static Callback subscriber;
static Requested requested;
static Completed completed;
static char records[MOST][RECORD_BYTES];
static int count;
static uint64_t now = 1000;
static uint32_t correlation;
static int parameter_sizes[3] = {8, 8, 4};
static uint16_t registers;

typedef struct {
  uint32_t site; const char *function; const void *parameters; void *returned; const char *symbol; void *context;
  uint32_t context_id; uint64_t *data; uint32_t correlation;
} CallbackData;

int cuptiSubscribe(void **handle, Callback callback, void *data) {
  if (getenv("REFUSES")) return 39;
  subscriber = callback;
  *handle = &subscriber;
  return 0;
}
int cuptiUnsubscribe(void *handle) { subscriber = 0; return 0; }
int cuptiEnableCallback(uint32_t on, void *handle, int domain, uint32_t number) { return 0; }
int cuptiActivityRegisterCallbacks(Requested one, Completed other) { requested = one; completed = other; return 0; }
int cuptiActivityEnable(int kind) { return 0; }
int cuptiActivityDisable(int kind) { return 0; }
int cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *dropped) { *dropped = 0; return 0; }
int cuptiGetVersion(uint32_t *version) { *version = 130000; return 0; }
int cuptiGetTimestamp(uint64_t *time) { *time = ++now; return 0; }
int cuptiGetResultString(int code, const char **text) { *text = "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED"; return 0; }

int cuptiActivityFlushAll(uint32_t flag) {
  uint8_t *buffer; size_t size, most;
  if (!count) return 0;
  requested(&buffer, &size, &most);
  memcpy(buffer, records, (size_t)count * RECORD_BYTES);
  completed(0, 0, buffer, size, (size_t)count * RECORD_BYTES);
  count = 0;
  return 0;
}
int cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, uint8_t **record) {
  uint8_t *next = *record ? *record + RECORD_BYTES : buffer;
  if (next >= buffer + valid) return 12;
  *record = next;
  return 0;
}

static void put(char *record, size_t offset, const void *value, size_t size) { memcpy(record + offset, value, size); }

static void call(uint32_t number, uint32_t site, const void *parameters) {
  CallbackData data = {site, "", parameters, 0, 0, 0, 0, 0, correlation};
  if (subscriber) subscriber(0, 1, number, &data);
}

/* Attribute 0x2f of .nv.info names a symbol and its registers. A module here has one kernel. */
static uint16_t read_registers(const char *image) {
  const Elf64_Ehdr *head = (const void *)image;
  const Elf64_Shdr *sections = (const void *)(image + head->e_shoff);
  const char *names = image + sections[head->e_shstrndx].sh_offset;
  for (int number = 0; number < head->e_shnum; ++number) {
    const unsigned char *at = (const unsigned char *)image + sections[number].sh_offset;
    const unsigned char *end = at + sections[number].sh_size;
    if (strcmp(names + sections[number].sh_name, ".nv.info")) continue;
    for (; at < end; at += 4 + (at[0] == 4 ? at[2] + 256 * at[3] : 0))
      if (at[1] == 0x2f) return at[8];
  }
  return 0;
}

static char *add(uint32_t kind, uint64_t begin, uint64_t end, size_t at) {
  char *record = records[count++];
  memset(record, 0, RECORD_BYTES);
  put(record, 0, &kind, 4);
  put(record, at, &begin, 8);
  put(record, at + 8, &end, 8);
  return record;
}

int fake_load(uint64_t module, const void *image) {
  struct { uint64_t *module; const void *image; } parameters = {&module, image};
  registers = read_registers(image);
  ++correlation;
  call(19, 0, &parameters);
  call(19, 1, &parameters);
  return 0;
}

/* A function's handle is its module's and 1000 more; every kernel is scale(float*, const float*, int). */
int fake_launch(uint64_t module, uint32_t grid, uint64_t x, uint64_t y, int n) {
  static const char name[] = "scale";
  uint32_t launches = 307, stream = 7, block = 128, one = 1;
  uint64_t called = ++now, begin = ++now, end = (now += 100);
  void *arguments[] = {&x, &y, &n};
  struct {
    uint64_t function; uint32_t sizes[7]; uint64_t stream; void **arguments; void **extra;
  } parameters = {module + 1000, {grid, 1, 1, block, 1, 1, 0}, 0, arguments, 0};
  const char *text = name;
  char *record;
  ++correlation;
  call(launches, 0, &parameters);
  call(launches, 1, &parameters);
  if (getenv("LOSES") || count + 2 > MOST) return 0;
  record = add(4, called, begin, 8);
  put(record, 4, &launches, 4);
  put(record, 32, &correlation, 4);
  record = add(10, begin, end, 16);
  put(record, 6, &registers, 2);
  put(record, 48, &stream, 4);
  put(record, 52, &grid, 4); put(record, 56, &one, 4); put(record, 60, &one, 4);
  put(record, 64, &block, 4); put(record, 68, &one, 4); put(record, 72, &one, 4);
  put(record, 92, &correlation, 4);
  put(record, 104, &text, 8);
  return 0;
}

int cuptiGetCallbackName(int domain, uint32_t number, const char **name) { *name = "cuLaunchKernel"; return 0; }
int cuFuncGetName(const char **name, void *function) { *name = "scale"; return 0; }
int cuFuncGetModule(uint64_t *module, void *function) { *module = (uint64_t)function - 1000; return 0; }
int cuFuncGetParamInfo(void *function, size_t index, size_t *offset, size_t *size) {
  if (index >= 3) return 1;
  *offset = 8 * index;
  *size = parameter_sizes[index];
  return 0;
}
/* Two allocations of 4 KiB. */
int cuMemGetAddressRange_v2(uint64_t *base, size_t *size, uint64_t address) {
  if (address < 0x7f0000010000 || address >= 0x7f0000012000) return 1;
  *base = address & ~0xFFFull;
  *size = 4096;
  return 0;
}
int cuPointerGetAttribute(uint32_t *value, int attribute, uint64_t address) {
  *value = attribute == 2 ? 2 : 0;
  return 0;
}
/* To whom asks for devices there is none: sessions measure the CPU's clock. */
int cuInit(unsigned flags) { return 100; }
int cuDeviceGetCount(int *found) { *found = 0; return 100; }
