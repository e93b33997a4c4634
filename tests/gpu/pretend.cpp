// Libraries with the names of NVIDIA's that do on the host what rtc asks of them: so the program can be run from its command
// line to its results on a machine without a GPU. "Compiling" a kernel makes a library of it with the shim of the tests, a
// "module" is such a library, and a launch calls into it. While a stream is captured work is put down, with its arguments as they
// are, and done when the graph is launched. Nothing here is fast, and nothing is known of a real device. Threads may use it at the same
// time, each with a stream of its own. Its memory is 1 GiB, or as many MiB as PRETEND_MEMORY says; with PRETEND_COUNTS it tells at the
// end what was asked of it.
//
// Built by pretend.sh as one library with the names libcuda.so.1, libnvrtc.so.13 and libcublas.so.13, with SHIM, CXX and FOLDER, where
// "machine code" lies, as texts.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
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
static std::atomic<size_t> graphs{0}, launches{0};

// A number, and the most that it ever was.
struct Level {
    size_t now = 0, most = 0;
    void add(size_t more) { most = std::max(most, now += more); }
};
// Streams, one for every model that is there, and bytes by their places.
static std::mutex mutex;
static Level models, bytes_taken;
static std::map<void *, size_t> taken;
static size_t memory() {
    const char *mib = getenv("PRETEND_MEMORY");
    return (size_t)(mib ? atoi(mib) : 1024) << 20;
}
// Does it now, or puts it down.
static int asked(Work work) {
    if (!capturing) return work();
    return capturing->push_back(work), 0;
}
static int refused() {
    fprintf(stderr, "this can't be captured\n");
    return 900;
}

extern "C" {

// The driver.

int cuInit(unsigned) { return 0; }
int cuDeviceGetCount(int *count) { return *count = 1, 0; }
int cuDeviceGet(int *device, int) { return *device = 0, 0; }
int cuDeviceGetName(char *name, int len, int) { return snprintf(name, len, "a pretended device"), 0; }
int cuDeviceGetAttribute(int *value, int which, int) { return *value = which == 75 ? 9 : 0, 0; }
int cuDevicePrimaryCtxRetain(void **context, int) { return *context = (void *)1, 0; }
int cuCtxSetCurrent(void *) { return 0; }
int cuStreamCreate(void **stream, unsigned) {
    std::lock_guard<std::mutex> lock(mutex);
    return models.add(1), *stream = (void *)1, 0;
}
int cuStreamSynchronize(void *) { return capturing ? refused() : 0; }
int cuStreamDestroy_v2(void *) {
    std::lock_guard<std::mutex> lock(mutex);
    return models.now--, 0;
}
int cuMemGetInfo_v2(size_t *free, size_t *total) {
    std::lock_guard<std::mutex> lock(mutex);
    *total = memory();
    return *free = *total - bytes_taken.now, 0;
}
int cuMemAlloc_v2(void **place, size_t bytes) {
    if (capturing) return refused();
    std::lock_guard<std::mutex> lock(mutex);
    if (bytes > memory() - bytes_taken.now) return 2;
    *place = aligned_alloc(256, (bytes + 255) / 256 * 256);
    if (!*place) return 2;
    memset(*place, 0xFF, bytes);
    return bytes_taken.add(taken[*place] = bytes), 0;
}
int cuMemFree_v2(void *place) {
    std::lock_guard<std::mutex> lock(mutex);
    bytes_taken.now -= taken[place];
    return taken.erase(place), free(place), 0;
}
int cuMemHostAlloc(void **place, size_t bytes, unsigned) { return *place = malloc(bytes), 0; }
int cuMemFreeHost(void *place) { return free(place), 0; }
int cuMemcpyHtoDAsync_v2(void *to, const void *from, size_t bytes, void *) {
    return capturing ? refused() : (memcpy(to, from, bytes), 0);
}
int cuMemcpyDtoHAsync_v2(void *to, const void *from, size_t bytes, void *) {
    return capturing ? refused() : (memcpy(to, from, bytes), 0);
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
    *module = dlopen((const char *)code, RTLD_NOW | RTLD_LOCAL);
    if (!*module) fprintf(stderr, "%s\n", dlerror());
    return *module ? 0 : 200;
}
int cuModuleUnload(void *module) { return dlclose(module), 0; }
int cuModuleGetFunction(Function **function, void *module, const char *name) {
    name += strlen("rtc_");
    auto count = (unsigned (*)(const char *))dlsym(module, "rtc_emulated_parameters");
    *function = new Function{(Launch)dlsym(module, "rtc_emulated_launch"), name, count ? count(name) : ~0u};
    return (*function)->launch && (*function)->parameters != ~0u ? 0 : 500;
}
int cuLaunchKernel(Function *function, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned, unsigned, unsigned,
                   void *, void **args, void **) {
    std::vector<size_t> values;
    for (unsigned n = 0; n < function->parameters; n++) values.push_back(*(size_t *)args[n]);
    return asked([=]() mutable {
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
    for (Work &work : *graph)
        if (int status = work()) return status;
    return 0;
}
int cuGraphDestroy(Graph *graph) { return delete graph, 0; }
int cuGraphExecDestroy(Graph *graph) { return delete graph, 0; }

// The compiler.

struct Program {
    std::string source, library, log;
};
int nvrtcVersion(int *major, int *minor) { return *major = 13, *minor = 0, 0; }
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
    char folder[] = FOLDER "/kernels-XXXXXX";
    if (!mkdtemp(folder)) return 7;
    std::string text = std::string(folder) + "/kernels.cpp";
    program->library = std::string(folder) + "/kernels.so";
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

// The products: columns first, single precision.

int cublasCreate_v2(void **handle) { return *handle = (void *)1, 0; }
int cublasDestroy_v2(void *) { return 0; }
int cublasSetStream_v2(void *, void *) { return 0; }
int cublasSetWorkspace_v2(void *, void *, size_t) { return 0; }
int cublasGemmEx(void *, int turn_a, int turn_b, int m, int n, int k, const float *alpha, const float *a, int, int lda,
                 const float *b, int, int ldb, const float *beta, float *c, int, int ldc, int, int) {
    if (lda < (turn_a ? k : m) || ldb < (turn_b ? n : k) || ldc < m) return 7;
    float times = *alpha, plus = *beta;
    return asked([=] {
        for (int j = 0; j < n; j++)
            for (int i = 0; i < m; i++) {
                float sum = 0;
                for (int p = 0; p < k; p++)
                    sum += (turn_a ? a[p + (size_t)i * lda] : a[i + (size_t)p * lda]) *
                           (turn_b ? b[j + (size_t)p * ldb] : b[p + (size_t)j * ldb]);
                float *place = c + i + (size_t)j * ldc;
                *place = times * sum + (plus == 0 ? 0 : plus * *place);
            }
        return 0;
    });
}
}

// What was asked for, at the end.
struct Said {
    ~Said() {
        if (!getenv("PRETEND_COUNTS")) return;
        fprintf(stderr, "pretended: %zu graphs, launched %zu times\n", graphs.load(), launches.load());
        fprintf(stderr, "pretended: at most %zu models at once, in %zu of %zu MiB\n", models.most, bytes_taken.most >> 20, memory() >> 20);
    }
} said;
