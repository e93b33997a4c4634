// Libraries with the names of NVIDIA's that do on the host what rtc asks of them: so the program can be run from its command
// line to its results on a machine without a GPU. "Compiling" a kernel makes a library of it with the shim of the tests, a
// "module" is such a library, and a launch calls into it. While a stream is captured work is put down, with its arguments as they
// are, and done when the graph is launched. Nothing here is fast, and nothing is known of a real device. Threads may use it at the same
// time, each with a stream of its own.
//
// Variables make it less than perfect, or as strict as a device may be:
//
//   PRETEND_MEMORY     MiB that it has
//   PRETEND_DRIVER     the release of its driver, 12040 for 12.4; code of a newer compiler is refused
//   PRETEND_FAULT      the number of the launch that reads where it must not, which shows later
//   PRETEND_NO_GRAPHS  nothing can be captured
//   PRETEND_LAZY       what is asked for is done when the host waits; copies from pinned memory read it then
//   PRETEND_HASTY      with PRETEND_LAZY: waits for nothing but copies to the host, which is wrong
//   PRETEND_COUNTS     says at the end what was asked for
//   PRETEND_IDLE       accepts machine code of NVIDIA's compiler and does nothing; rtc refuses such a device without RTC_UNCHECKED_DEVICE
//
// Built by pretend.sh as one library with the names libcuda.so.1, libnvrtc.so.13 and libcublasLt.so.13, with SHIM and CXX as texts.

#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <dlfcn.h>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

typedef std::function<int()> Work;
typedef std::vector<Work> Graph;
// The graph that this thread captures, if it does.
static thread_local Graph *capturing = nullptr;
static std::atomic<size_t> graphs{0}, launches{0}, kernels{0};
// Products that were started; ways to do one that were asked for; operands that lie so that a fast kernel would not take them.
static std::atomic<size_t> descriptions{0}, most_descriptions{0};
static std::atomic<size_t> products{0}, calls{0}, asked_ways{0}, slow{0};
// The release of the compiler, and a number from a variable.
static const int COMPILER = 13000;
static size_t variable(const char *name, size_t otherwise) {
    const char *text = getenv(name);
    return text ? strtoull(text, nullptr, 10) : otherwise;
}
static bool idle() {
    static const bool is = getenv("PRETEND_IDLE");
    return is;
}
static int faulty() { return kernels >= variable("PRETEND_FAULT", ~(size_t)0) ? 700 : 0; }
// What was taken of its memory, and the streams, one for each model that is there.
static std::map<void *, size_t> blocks;
static size_t taken = 0, most = 0, models = 0, most_models = 0;
static std::mutex mutex;
typedef std::lock_guard<std::mutex> Locked;
static size_t memory() { return variable("PRETEND_MEMORY", 16384) << 20; }
// What this thread asked for and is not done, and whether a copy to the host is among it.
static thread_local std::deque<Work> pending;
static thread_local bool host_reads = false;
static int waited() {
    host_reads = false;
    for (; !pending.empty(); pending.pop_front())
        if (int status = pending.front()()) return status;
    return 0;
}
// Does it now or later, or puts it down.
static int asked(Work work) {
    if (idle()) return 0;
    if (capturing) return capturing->push_back(work), 0;
    if (!getenv("PRETEND_LAZY")) return work();
    return pending.push_back(work), 0;
}
// Pinned memory of the host, by its first bytes.
static std::map<const char *, size_t> pinned;
static bool is_pinned(const void *at) {
    Locked locked(mutex);
    auto next = pinned.upper_bound((const char *)at);
    return next != pinned.begin() && (const char *)at < std::prev(next)->first + std::prev(next)->second;
}
static int refused() {
    fprintf(stderr, "this can't be captured\n");
    return 900;
}

extern "C" {

// The driver.

int cuInit(unsigned) { return 0; }
int cuDriverGetVersion(int *version) { return *version = variable("PRETEND_DRIVER", COMPILER), 0; }
int cuDeviceGetCount(int *count) { return *count = 1, 0; }
int cuDeviceGet(int *device, int) { return *device = 0, 0; }
int cuDeviceGetName(char *name, int len, int) { return snprintf(name, len, "a pretended device"), 0; }
int cuDeviceGetAttribute(int *value, int which, int) { return *value = which == 75 ? 9 : 0, 0; }
// NVIDIA's compiler looks for a driver and asks it for more than this one has.
int cuGetExportTable(const void **table, const void *) { return *table = nullptr, 500; }
int cuGetProcAddress_v2(const char *, void **function, int, unsigned long long, void *) { return *function = nullptr, 500; }
int cuDevicePrimaryCtxRetain(void **context, int) { return *context = (void *)1, 0; }
int cuCtxSetCurrent(void *) { return 0; }
int cuStreamCreate(void **stream, unsigned) {
    Locked locked(mutex);
    if (++models > most_models) most_models = models;
    return *stream = (void *)1, 0;
}
int cuStreamSynchronize(void *) {
    if (capturing) return refused();
    int status = getenv("PRETEND_HASTY") && !host_reads ? 0 : waited();
    return status ? status : faulty();
}
int cuStreamDestroy_v2(void *) {
    Locked locked(mutex);
    return models--, 0;
}
int cuMemGetInfo_v2(size_t *free, size_t *total) {
    Locked locked(mutex);
    *total = memory();
    *free = *total - taken;
    return 0;
}
int cuMemAlloc_v2(void **place, size_t bytes) {
    if (capturing) return refused();
    Locked locked(mutex);
    if (taken + bytes > memory()) return 2;
    *place = aligned_alloc(256, (bytes + 255) / 256 * 256);
    // An idle device may have more than this machine: what is not touched takes nothing.
    if (!idle()) memset(*place, 0xFF, bytes);
    blocks[*place] = bytes;
    taken += bytes;
    if (taken > most) most = taken;
    return 0;
}
int cuMemFree_v2(void *place) {
    int status = waited();
    Locked locked(mutex);
    auto found = blocks.find(place);
    if (found == blocks.end()) return 1;
    taken -= found->second;
    blocks.erase(found);
    return free(place), status;
}
int cuMemHostAlloc(void **place, size_t bytes, unsigned) {
    Locked locked(mutex);
    *place = malloc(bytes);
    pinned[(const char *)*place] = bytes;
    return 0;
}
int cuMemFreeHost(void *place) {
    Locked locked(mutex);
    pinned.erase((const char *)place);
    return free(place), 0;
}
int cuMemcpyHtoDAsync_v2(void *to, const void *from, size_t bytes, void *) {
    if (capturing) return refused();
    if (is_pinned(from)) return asked([=] { return memcpy(to, from, bytes), 0; });
    // Other memory of the host is read before the call returns.
    std::string copy((const char *)from, bytes);
    return asked([=] { return memcpy(to, copy.data(), bytes), 0; });
}
int cuMemcpyDtoHAsync_v2(void *to, const void *from, size_t bytes, void *) {
    if (capturing) return refused();
    host_reads = true;
    return asked([=] { return memcpy(to, from, bytes), 0; });
}
int cuMemcpyDtoDAsync_v2(void *to, const void *from, size_t bytes, void *) {
    return asked([=] { return memcpy(to, from, bytes), 0; });
}
int cuMemsetD8Async(void *to, unsigned char value, size_t bytes, void *) {
    return asked([=] { return memset(to, value, bytes), 0; });
}
int cuGetErrorName(int, const char **text) { return *text = "PRETENDED_ERROR", 0; }
int cuGetErrorString(int, const char **text) { return *text = "the pretended device failed", 0; }

typedef int (*Launch)(const char *, const unsigned *, unsigned, void **);
struct Function {
    Launch launch;
    std::string name;
    unsigned parameters;
};
int cuModuleLoadData(void **module, const void *code) {
    if (variable("PRETEND_DRIVER", COMPILER) / 1000 < COMPILER / 1000) return 222;
    if (idle()) return *module = nullptr, memcmp(code, "\x7f" "ELF", 4) ? 200 : 0;
    *module = dlopen((const char *)code, RTLD_NOW | RTLD_LOCAL);
    if (!*module) fprintf(stderr, "%s\n", dlerror());
    return *module ? 0 : 200;
}
int cuModuleUnload(void *module) { return module && dlclose(module), 0; }
int cuModuleGetFunction(Function **function, void *module, const char *name) {
    name += strlen("rtc_");
    if (idle()) return *function = new Function{nullptr, name, 0}, 0;
    auto count = (unsigned (*)(const char *))dlsym(module, "rtc_emulated_parameters");
    *function = new Function{(Launch)dlsym(module, "rtc_emulated_launch"), name, count ? count(name) : ~0u};
    return (*function)->launch && (*function)->parameters != ~0u ? 0 : 500;
}
int cuLaunchKernel(Function *function, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned, unsigned, unsigned,
                   void *, void **args, void **) {
    std::vector<size_t> values;
    for (unsigned n = 0; n < function->parameters; n++) values.push_back(*(size_t *)args[n]);
    return asked([=]() mutable {
        kernels++;
        std::vector<void *> places;
        for (size_t &value : values) places.push_back(&value);
        unsigned grid[3] = {x, y, z};
        return function->launch(function->name.c_str(), grid, threads, places.data()) ? 500 : 0;
    });
}

int cuStreamBeginCapture_v2(void *, int) {
    if (getenv("PRETEND_NO_GRAPHS")) return 801;
    return capturing ? refused() : (capturing = new Graph, 0);
}
int cuStreamEndCapture(void *, Graph **graph) {
    *graph = capturing;
    capturing = nullptr;
    return *graph ? 0 : 901;
}
int cuGraphInstantiateWithFlags(Graph **made, Graph *graph, unsigned long long) {
    return graphs++, *made = new Graph(*graph), 0;
}
int cuGraphLaunch(Graph *graph, void *) {
    launches++;
    return asked([=] {
        for (Work &work : *graph)
            if (int status = work()) return status;
        return 0;
    });
}
int cuGraphDestroy(Graph *graph) { return delete graph, 0; }
int cuGraphExecDestroy(Graph *graph) {
    int status = waited();
    return delete graph, status;
}

// The compiler. An idle device has NVIDIA's, whose functions have these names, and is built without SHIM.

#ifdef SHIM
struct Program {
    std::string source, library, log;
};
int nvrtcVersion(int *major, int *minor) { return *major = COMPILER / 1000, *minor = COMPILER % 1000 / 10, 0; }
int nvrtcGetNumSupportedArchs(int *count) { return *count = 1, 0; }
int nvrtcGetSupportedArchs(int *known) { return *known = 90, 0; }
int nvrtcCreateProgram(Program **program, const char *source, const char *, int, const char **, const char **) {
    *program = new Program{source, "", ""};
    return 0;
}
int nvrtcDestroyProgram(Program **program) { return delete *program, 0; }
// A line for each kernel, which the shim finds it by.
static std::string registered(const std::string &source) {
    std::string out;
    for (size_t at = 0; at < source.size(); at = source.find('\n', at) + 1) {
        bool team = source.compare(at, 5, "TEAM(") == 0;
        if (team || source.compare(at, 7, "KERNEL(") == 0) {
            size_t name = source.find('(', at) + 1;
            out += "REGISTER(" + source.substr(name, source.find(')', name) - name) + (team ? ", true)\n" : ", false)\n");
        }
        if (source.find('\n', at) == std::string::npos) break;
    }
    return out;
}
int nvrtcCompileProgram(Program *program, int, const char *const *) {
    const char *below = getenv("TMPDIR");
    std::string folder = std::string(below ? below : "/tmp") + "/rtc-pretended-XXXXXX";
    if (!mkdtemp(&folder[0])) return 7;
    std::string text = folder + "/kernels.cpp";
    program->library = folder + "/kernels.so";
    FILE *file = fopen(text.c_str(), "w");
    fprintf(file, "#include \"" SHIM "\"\n%s\n%s", program->source.c_str(), registered(program->source).c_str());
    fclose(file);
    std::string command = CXX " -std=c++17 -O1 -w -shared -fPIC -DREAL=float -o " + program->library + " " + text;
    return system(command.c_str()) == 0 ? 0 : 6;
}
int nvrtcGetCUBINSize(Program *program, size_t *size) { return *size = program->library.size() + 1, 0; }
int nvrtcGetCUBIN(Program *program, char *code) { return strcpy(code, program->library.c_str()), 0; }
int nvrtcGetProgramLogSize(Program *program, size_t *size) { return *size = program->log.size() + 1, 0; }
int nvrtcGetProgramLog(Program *program, char *log) { return strcpy(log, program->log.c_str()), 0; }
#endif

// The products: columns first, single precision. A description holds what it was told, and says no to what it was not made for.

struct MatmulDesc {
    int transposed[2] = {0, 0}, epilogue = 1, bias_type = 0;
    const void *bias = nullptr;
    long long bias_apart = 0;
};
struct Layout {
    size_t rows, columns, step;
    int type, count = 1;
    long long apart = 0;
};
// The library's numbers for float and bfloat16.
const int FLOAT = 0, BF16 = 14;
static float number_at(const void *x, size_t i, int type) {
    if (type == FLOAT) return ((const float *)x)[i];
    unsigned bits = (unsigned)((const unsigned short *)x)[i] << 16;
    float number;
    memcpy(&number, &bits, sizeof number);
    return number;
}
static void put_at(void *y, size_t i, float number, int type) {
    if (type == FLOAT) {
        ((float *)y)[i] = number;
        return;
    }
    unsigned bits;
    memcpy(&bits, &number, sizeof bits);
    bits = number != number ? 0x7FFF0000 : bits + 0x7FFF + (bits >> 16 & 1);
    ((unsigned short *)y)[i] = bits >> 16;
}
struct Preference {
    size_t workspace = 0;
    unsigned aligned[4] = {256, 256, 256, 256};
};
// The answer of the heuristic: for which product it was given, and what was promised of its pointers.
struct Algorithm {
    unsigned long long known, form;
    unsigned aligned[4];
    unsigned long long rest[4];
};
struct Answer {
    Algorithm way;
    size_t workspace;
    int state;
    float waves;
    int reserved[4];
};
const int EPILOGUE_DEFAULT = 1, EPILOGUE_BIAS = 4, INVALID = 7, UNSUPPORTED = 15;
const unsigned long long KNOWN = 0x6B6E6F776Eull;

int cublasLtCreate(void **handle) { return *handle = (void *)1, 0; }
int cublasLtDestroy(void *) { return 0; }
int cublasLtMatmulDescCreate(MatmulDesc **made, int, int scale) {
    if (scale) return UNSUPPORTED;
    size_t now = ++descriptions, known = most_descriptions;
    while (now > known && !most_descriptions.compare_exchange_weak(known, now)) {}
    return *made = new MatmulDesc, 0;
}
int cublasLtMatmulDescDestroy(MatmulDesc *desc) { return descriptions--, delete desc, 0; }
int cublasLtMatmulDescSetAttribute(MatmulDesc *desc, int attribute, const void *value, size_t size) {
    switch (attribute) {
        case 3:
        case 4: return size != 4 ? INVALID : (memcpy(&desc->transposed[attribute - 3], value, 4), 0);
        case 7: return size != 4 ? INVALID : (memcpy(&desc->epilogue, value, 4), 0);
        case 8: return size != 8 ? INVALID : (memcpy(&desc->bias, value, 8), 0);
        case 10: return size != 8 ? INVALID : (memcpy(&desc->bias_apart, value, 8), 0);
        case 26: return size != 4 ? INVALID : (memcpy(&desc->bias_type, value, 4), 0);
    }
    return INVALID;
}
int cublasLtMatrixLayoutCreate(Layout **made, int type, size_t rows, size_t columns, long long step) {
    if ((type != FLOAT && type != BF16) || !rows || !columns || step < (long long)rows) return INVALID;
    return *made = new Layout{rows, columns, (size_t)step, type}, 0;
}
int cublasLtMatrixLayoutSetAttribute(Layout *layout, int attribute, const void *value, size_t size) {
    if (attribute == 5) return size != 4 ? INVALID : (memcpy(&layout->count, value, 4), 0);
    if (attribute == 6) return size != 8 ? INVALID : (memcpy(&layout->apart, value, 8), 0);
    return INVALID;
}
int cublasLtMatrixLayoutDestroy(Layout *layout) { return delete layout, 0; }
int cublasLtMatmulPreferenceCreate(Preference **made) { return *made = new Preference, 0; }
int cublasLtMatmulPreferenceDestroy(Preference *preference) { return delete preference, 0; }
int cublasLtMatmulPreferenceSetAttribute(Preference *preference, int attribute, const void *value, size_t size) {
    if (attribute == 1) return size != 8 ? INVALID : (memcpy(&preference->workspace, value, 8), 0);
    if (attribute < 5 || attribute > 8 || size != 4) return INVALID;
    return memcpy(&preference->aligned[attribute - 5], value, 4), 0;
}
// A number for a product, by all that its descriptions say besides addresses.
static unsigned long long form_of(const MatmulDesc *desc, const Layout *a, const Layout *b, const Layout *c, const Layout *d) {
    unsigned long long hash = desc->transposed[0] + 2 * desc->transposed[1] + 4 * desc->epilogue + 4096 * desc->bias_apart;
    for (const Layout *layout : {a, b, c, d})
        for (size_t n : {layout->rows, layout->columns, layout->step, (size_t)layout->type, (size_t)layout->count, (size_t)layout->apart})
            hash = (hash ^ n) * 0x9E3779B97F4A7C15ull;
    return hash;
}
int cublasLtMatmulAlgoGetHeuristic(void *, MatmulDesc *desc, Layout *a, Layout *b, Layout *c, Layout *d, Preference *preference,
                                   int most, Answer *answers, int *count) {
    *count = 0;
    if (getenv("PRETEND_NO_WAY")) return UNSUPPORTED;
    size_t m = desc->transposed[0] ? a->columns : a->rows, k = desc->transposed[0] ? a->rows : a->columns;
    size_t n = desc->transposed[1] ? b->rows : b->columns, terms = desc->transposed[1] ? b->columns : b->rows;
    for (Layout *out : {c, d})
        if (out->rows != m || out->columns != n) return INVALID;
    if (k != terms || most < 1) return INVALID;
    for (Layout *layout : {a, b, c, d})
        if (layout->count != d->count || layout->apart < 0) return INVALID;
    // Results may not lie upon one another.
    if (d->count > 1 && (size_t)d->apart < d->step * (d->columns - 1) + d->rows) return INVALID;
    if (a->type != b->type || c->type != d->type || (a->type == FLOAT && d->type != FLOAT)) return UNSUPPORTED;
    if (desc->epilogue != EPILOGUE_DEFAULT && desc->epilogue != EPILOGUE_BIAS) return UNSUPPORTED;
    asked_ways++;
    Algorithm way = {KNOWN, form_of(desc, a, b, c, d)};
    memcpy(way.aligned, preference->aligned, sizeof way.aligned);
    answers[0] = {way, preference->workspace, 0, 1, {}};
    return *count = 1, 0;
}
int cublasLtMatmul(void *, MatmulDesc *desc, const float *alpha, const void *a, Layout *of_a, const void *b, Layout *of_b,
                   const float *beta, const void *c, Layout *of_c, void *d, Layout *of_d, const Algorithm *way,
                   float *workspace, size_t room, void *) {
    if (idle()) return calls++, 0;
    if (!way || way->known != KNOWN || way->form != form_of(desc, of_a, of_b, of_c, of_d) || !workspace) return INVALID;
    const void *places[4] = {a, b, c, d};
    for (int n = 0; n < 4; n++)
        if ((size_t)places[n] % way->aligned[n]) return INVALID;
    const void *bias = desc->epilogue == EPILOGUE_BIAS ? desc->bias : nullptr;
    if (bias && desc->bias_type != of_d->type) return UNSUPPORTED;
    if (desc->epilogue == EPILOGUE_BIAS && (!bias || (size_t)bias % way->aligned[3])) return INVALID;
    int count = of_d->count;
    long long apart[5] = {of_a->apart, of_b->apart, of_c->apart, of_d->apart, bias ? desc->bias_apart : 0};
    const Layout *layouts[5] = {of_a, of_b, of_c, of_d, of_d};
    for (int n = 0; count > 1 && n < 5; n++)
        if ((layouts[n]->type == FLOAT ? 4 : 2) * apart[n] % way->aligned[n < 4 ? n : 3]) return INVALID;
    for (unsigned aligned : way->aligned) slow += aligned < 16;
    products += count, calls++;
    bool turn_a = desc->transposed[0], turn_b = desc->transposed[1];
    size_t m = of_d->rows, n = of_d->columns, k = turn_a ? of_a->rows : of_a->columns;
    size_t lda = of_a->step, ldb = of_b->step, ldc = of_c->step, ldd = of_d->step;
    float times = *alpha, plus = *beta;
    int in = of_a->type, out = of_d->type;
    return asked([=] {
        memset(workspace, 0xFF, room < 4096 ? room : 4096);
        for (int one = 0; one < count; one++) {
            size_t left = one * apart[0], right = one * apart[1], before = one * apart[2], behind = one * apart[3];
            // What is there is gone before the matrices are read, so one that lies there as well is no matrix any more.
            size_t size = out == FLOAT ? 4 : 2;
            for (size_t j = 0; j < n && plus == 0; j++) memset((char *)d + (behind + j * ldd) * size, 0xFF, m * size);
            for (size_t j = 0; j < n; j++)
                for (size_t i = 0; i < m; i++) {
                    float sum = 0;
                    for (size_t p = 0; p < k; p++)
                        sum += number_at(a, left + (turn_a ? p + i * lda : i + p * lda), in) * number_at(b, right + (turn_b ? j + p * ldb : p + j * ldb), in);
                    // With a factor of 0, what is there is not read: it may be no number.
                    float more = plus == 0 ? 0 : plus * number_at(c, before + i + j * ldc, out);
                    if (bias) more += number_at(bias, one * apart[4] + i, out);
                    put_at(d, behind + i + j * ldd, times * sum + more, out);
                }
        }
        return 0;
    });
}
}

// What was asked for, at the end.
struct Said {
    ~Said() {
        if (!getenv("PRETEND_COUNTS")) return;
        fprintf(stderr, "pretended: %zu graphs, launched %zu times; %zu models and %zu MiB at most\n", graphs.load(), launches.load(),
                most_models, most >> 20);
        fprintf(stderr, "pretended: %zu products in %zu calls and %zu ways, %zu operands aligned to less than 16 bytes\n",
                products.load(), calls.load(), asked_ways.load(), slow.load());
        fprintf(stderr, "pretended: %zu descriptions of products at most, %zu at the end\n", most_descriptions.load(),
                descriptions.load());
    }
} said;
