// Finds races of kernels on the emulated device, which runs their threads one after the other and has none itself. The kernels are
// compiled with -fsanitize=thread, so that every access to memory calls one of the functions at the end of this file; no
// library of a sanitizer is there.
//
// A device orders two accesses of one launch if they are of one thread, or of one block with a meeting of the block between
// them, or of one warp with a __syncwarp between them; an exchange of values (shuffle, vote, mma) orders no memory. Of two
// accesses that are not ordered none may be a write, in whatever order they came here. So what is found does not depend on
// luck: only on which threads touch which bytes.
//
// Besides: accesses outside of every array, to shared memory that the block did not declare, and reads of shared memory that
// the block never wrote.

#include "position.h"

#include <cstdlib>
#include <cstring>
#include <link.h>
#include <map>
#include <string>

using namespace emulated;

namespace {

// The accesses of one kind to some bytes in this launch, by the last one and by whether there were others that it does not stand
// for: from another block; after the last meeting of its block from another warp; after the last one of its warp from another lane.
struct Accesses {
    unsigned launch, block, block_meetings, warp_meetings;
    unsigned short thread;
    bool other_blocks, other_warps, other_lanes;
};

Accesses present() {
    unsigned thread = position.thread;
    return {position.launch, position.block, position.block_meetings, position.warp_meetings[thread / MOST_LANES],
            (unsigned short)thread, false, false, false};
}

// Whether one of the accesses is not ordered with one from here. Blocks share no shared memory.
bool unordered(const Accesses &then, const Accesses &now, bool shared) {
    if (then.launch != now.launch) return false;
    if (then.block != now.block) return !shared;
    if (then.other_blocks && !shared) return true;
    if (then.block_meetings != now.block_meetings) return false;
    if (then.thread / MOST_LANES != now.thread / MOST_LANES || then.other_warps) return true;
    return then.warp_meetings == now.warp_meetings && (then.thread != now.thread || then.other_lanes);
}

void add(Accesses &all, Accesses now) {
    bool in_launch = all.launch == now.launch, in_block = in_launch && all.block == now.block;
    bool since_block = in_block && all.block_meetings == now.block_meetings;
    bool in_warp = since_block && all.thread / MOST_LANES == now.thread / MOST_LANES;
    bool since_warp = in_warp && all.warp_meetings == now.warp_meetings;
    now.other_blocks = in_launch && (!in_block || all.other_blocks);
    now.other_warps = since_block && (!in_warp || all.other_warps);
    now.other_lanes = since_warp && (all.thread != now.thread || all.other_lanes);
    all = now;
}

struct Cell {
    Accesses writes, reads;
};
const size_t WORD = 4;
// Four bytes, each by itself as soon as one was touched alone.
struct Word {
    Cell whole, *bytes;
};

struct Memory {
    size_t bytes, used;
    bool shared;
    Word *words;
    Memory(size_t bytes, bool shared)
        : bytes(bytes), used(bytes), shared(shared), words((Word *)calloc(bytes / WORD + 1, sizeof(Word))) {}
    Memory(const Memory &) = delete;
    ~Memory() {
        for (size_t n = 0; n < bytes / WORD + 1; n++) free(words[n].bytes);
        free(words);
    }
};
// By first byte: what the device has taken, and the shared memory of this thread of the host. Blocks of the device lie apart.
thread_local std::map<size_t, Memory> memories;
thread_local std::map<size_t, Memory>::iterator last = memories.end();

// What was found, and how often.
thread_local std::map<std::string, size_t> found;

void report(const char *what, const Memory *memory, size_t offset) {
    std::string where = !memory ? "" : memory->shared ? " in shared memory" : " in an array";
    std::string line = "`" + std::string(position.kernel) + "` " + what + where;
    if (found[line]++ == 0 && memory)
        found[line + ": byte " + std::to_string(offset) + " of " + std::to_string(memory->used) + ", thread " +
              std::to_string(position.thread) + " of block " + std::to_string(position.block)] = 1;
}

// The memory that a byte belongs to, or none.
std::map<size_t, Memory>::iterator memory_of(size_t at) {
    auto has = [at](std::map<size_t, Memory>::iterator it) { return at - it->first < it->second.bytes; };
    if (last != memories.end() && has(last)) return last;
    auto next = memories.upper_bound(at);
    if (next == memories.begin()) return memories.end();
    auto before = std::prev(next);
    return has(before) ? last = before : memories.end();
}

bool holds(const Bytes &some, size_t at) { return at - (size_t)some.at < some.bytes; }

// The variable in shared memory of this block that a byte belongs to, or none.
const Bytes *declared_at(size_t at) {
    for (unsigned n = 0; n < position.shared_count; n++)
        if (holds(position.shared[n], at)) return &position.shared[n];
    return nullptr;
}

// The image of the library of the kernels, which holds their constants.
Bytes image() {
    static thread_local Bytes found;
    auto look = [](dl_phdr_info *info, size_t, void *) {
        for (int n = 0; n < info->dlpi_phnum; n++) {
            const ElfW(Phdr) &part = info->dlpi_phdr[n];
            if (part.p_type != PT_LOAD) continue;
            size_t first = found.at ? (size_t)found.at : info->dlpi_addr + part.p_vaddr;
            found = {(const void *)first, info->dlpi_addr + part.p_vaddr + part.p_memsz - first};
        }
        int here = holds(found, (size_t)image);
        if (!here) found = {};
        return here;
    };
    if (!found.at) dl_iterate_phdr(look, nullptr);
    return found;
}

// Whether a byte belongs to the thread alone, to the emulator, or to constants of the kernels.
bool is_aside(size_t at, bool write) {
    if (holds(position.stack, at) || (!write && holds(image(), at))) return true;
    for (const Bytes &own : position.own)
        if (holds(own, at)) return true;
    return false;
}

void access(Cell &cell, const Accesses &now, bool write, const Memory &memory, size_t offset) {
    if (unordered(cell.writes, now, memory.shared))
        report(write ? "writes what another thread writes" : "reads what another thread writes", &memory, offset);
    if (write && unordered(cell.reads, now, memory.shared)) report("writes what another thread reads", &memory, offset);
    bool written = cell.writes.launch == now.launch && cell.writes.block == now.block;
    if (memory.shared && !write && !written) report("reads what its block did not write", &memory, offset);
    add(write ? cell.writes : cell.reads, now);
}

void split(Word &word) {
    word.bytes = (Cell *)malloc(WORD * sizeof(Cell));
    for (size_t n = 0; n < WORD; n++) word.bytes[n] = word.whole;
}

void touch(const void *place, size_t bytes, bool write) {
    if (!position.inside) return;
    size_t at = (size_t)place;
    const Bytes *declared = declared_at(at);
    if (declared) memories.try_emplace((size_t)declared->at, declared->bytes, true);
    auto it = memory_of(at);
    if (it == memories.end() || it->second.shared != (declared != nullptr)) {
        if (!is_aside(at, write)) report(write ? "writes outside of all memory" : "reads outside of all memory", nullptr, 0);
        return;
    }
    Memory &memory = it->second;
    size_t offset = at - it->first;
    if (offset + bytes > memory.used) return report(write ? "writes behind the end" : "reads behind the end", &memory, offset);
    Accesses now = present();
    while (bytes > 0) {
        Word &word = memory.words[offset / WORD];
        size_t first = offset % WORD, count = WORD - first < bytes ? WORD - first : bytes;
        if (count < WORD && !word.bytes) split(word);
        if (!word.bytes) access(word.whole, now, write, memory, offset);
        else
            for (size_t n = first; n < first + count; n++) access(word.bytes[n], now, write, memory, offset + n - first);
        offset += count, bytes -= count;
    }
}

} // namespace

// The device has taken memory, or given it back.
extern "C" void rtc_races_taken(size_t at, size_t bytes) { memories.try_emplace(at, bytes, false); }
extern "C" void rtc_races_released(size_t at) {
    memories.erase(at);
    last = memories.end();
}
// So many bytes of it are an array; the others belong to nobody.
extern "C" void rtc_races_used(size_t at, size_t bytes) {
    auto it = memories.find(at);
    if (it != memories.end()) it->second.used = bytes;
}
// What was found on this thread of the host since this was last asked, in lines.
extern "C" const char *rtc_races_found() {
    static thread_local std::string text;
    text.clear();
    for (const auto &[line, times] : found) text += line + (times > 1 ? ", " + std::to_string(times) + " times\n" : "\n");
    found.clear();
    return text.c_str();
}

// What -fsanitize=thread calls. Hidden, so that no library of a sanitizer in the program takes their place.
#define HOOK extern "C" __attribute__((visibility("hidden")))
#define ACCESS(bytes)                                                        \
    HOOK void __tsan_read##bytes(void *at) { touch(at, bytes, false); }      \
    HOOK void __tsan_write##bytes(void *at) { touch(at, bytes, true); }      \
    HOOK void __tsan_unaligned_read##bytes(void *at) { touch(at, bytes, false); } \
    HOOK void __tsan_unaligned_write##bytes(void *at) { touch(at, bytes, true); }
ACCESS(1)
ACCESS(2)
ACCESS(4)
ACCESS(8)
ACCESS(16)
HOOK void __tsan_read_range(void *at, size_t bytes) { touch(at, bytes, false); }
HOOK void __tsan_write_range(void *at, size_t bytes) { touch(at, bytes, true); }
HOOK void __tsan_func_entry(void *) {}
HOOK void __tsan_func_exit() {}
HOOK void __tsan_init() {}
// clang calls these for copies.
HOOK void *__tsan_memcpy(void *to, const void *from, size_t bytes) {
    touch(from, bytes, false), touch(to, bytes, true);
    return memcpy(to, from, bytes);
}
HOOK void *__tsan_memmove(void *to, const void *from, size_t bytes) {
    touch(from, bytes, false), touch(to, bytes, true);
    return memmove(to, from, bytes);
}
HOOK void *__tsan_memset(void *to, int value, size_t bytes) {
    touch(to, bytes, true);
    return memset(to, value, bytes);
}
