// Runs CUDA C++ kernels on the CPU, from the sources that NVRTC compiles.
//
//   launch ── OS thread 0 ── block 0, block 2, ...     blocks start in order, so that a block
//         └── OS thread 1 ── block 1, block 3, ...     may wait for one with a lower index
//                              │
//                              └── one fiber a CUDA thread, one running at a time
//
// A fiber runs until it reaches a barrier, a warp collective, a fence or an atomic. Then the next fiber is drawn from
// those that are ready, so a missing barrier makes the result wrong for some seeds. Every block draws its policy: all
// ready fibers are equally likely, or the one that became ready last is likelier, so that one warp runs far ahead of the
// others. __shared__ arrays are thread-local statics, because the fibers of a block share an OS thread. They are filled
// with a random byte before every block. The build defines dynamic shared memory with spare space; the bytes past those
// of a launch must keep the random byte. This cannot show speed, weak memory ordering between blocks, or inline PTX.
#pragma once
#include <link.h>
#include <setjmp.h>
#include <ucontext.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

struct dim3 {
    unsigned x = 1, y = 1, z = 1;
};

namespace host_cuda {

constexpr unsigned kLanes = 32;
// A kernel's tile is in shared memory, and its registers take a few hundred bytes of stack. The rest is for frames that
// the host compiler does not inline. Pages that are never touched cost nothing.
constexpr size_t kStackBytes = 64 << 10;
constexpr int kOsThreads = 2;   // so that blocks overlap in time

// Once in mask + 1 switches, all ready fibers are equally likely: always, every other time, or rarely.
constexpr uint64_t kEvenDrawMasks[] = {0, 1, 15, 255};

// Checked past the end of dynamic shared memory: a warp's worth of the widest (16-byte) accesses.
constexpr size_t kCheckedBytes = 512;
constexpr size_t kMostDynamicBytes = 227 << 10;   // of a block, on Hopper

enum class State { kReady, kAtBarrier, kInWarpCall, kDone };
enum class WarpOp { kSync, kShuffle, kBallot, kMatch };

struct Fiber {
    jmp_buf resume;
    std::unique_ptr<char[]> stack;
    dim3 thread_index;
    State state;
    WarpOp op;         // the warp collective it waits in, with its arguments and its result
    unsigned mask;
    unsigned source;
    uint64_t operand;
    uint64_t result;
};

// One OS thread's share of a launch. It runs one block at a time, on fibers that later blocks and launches reuse:
// making a fiber takes as long as running it.
struct Worker {
    std::vector<Fiber> fibers;   // at least `threads`
    std::vector<unsigned> ready;
    std::vector<unsigned> lanes_arrived;   // per warp, one bit a lane
    jmp_buf scheduler;
    ucontext_t home;
    unsigned threads = 0, current = 0, live = 0, at_barrier = 0, votes = 0, votes_of_last_barrier = 0;
    uint64_t random_state = 1, even_draw_mask = 0;
    dim3 grid, block, block_index;
    void (*body)(void*) = nullptr;
    void* body_arguments = nullptr;
    const char* error = nullptr;

    uint64_t random() {   // xorshift64
        random_state ^= random_state << 13;
        random_state ^= random_state >> 7;
        return random_state ^= random_state << 17;
    }

    void make_ready(unsigned fiber) {
        fibers[fiber].state = State::kReady;
        ready.push_back(fiber);
    }

    [[noreturn]] void run_next() {
        if (ready.empty() || error) _longjmp(scheduler, 1);
        if ((random() & even_draw_mask) == 0) std::swap(ready[random() % ready.size()], ready.back());
        current = ready.back();
        ready.pop_back();
        _longjmp(fibers[current].resume, 1);
    }

    __attribute__((noinline)) void switch_away() {
        if (_setjmp(fibers[current].resume) == 0) run_next();
    }

    void maybe_yield() {
        if (random() & 1) return;
        make_ready(current);
        switch_away();
    }

    [[noreturn]] void fail(const char* what) {
        error = what;
        _longjmp(scheduler, 1);
    }

    void release_barrier_if_complete() {
        if (at_barrier == 0 || at_barrier < live) return;
        votes_of_last_barrier = votes;
        at_barrier = votes = 0;
        for (unsigned f = 0; f < threads; ++f)
            if (fibers[f].state == State::kAtBarrier) make_ready(f);
    }

    unsigned wait_for_block(bool vote) {
        fibers[current].state = State::kAtBarrier;
        ++at_barrier;
        votes += vote;
        release_barrier_if_complete();
        switch_away();
        return votes_of_last_barrier;
    }

    unsigned lanes_of(unsigned warp) const {
        const unsigned lanes = threads - warp * kLanes;
        return lanes >= kLanes ? ~0u : (1u << lanes) - 1;
    }

    uint64_t warp_call(WarpOp op, unsigned mask, uint64_t operand = 0, unsigned source = 0) {
        Fiber& me = fibers[current];
        const unsigned warp = current / kLanes, bit = 1u << (current % kLanes);
        mask &= lanes_of(warp);
        if (!(mask & bit)) fail("a lane called a warp collective whose mask leaves it out");
        me.state = State::kInWarpCall;
        me.op = op, me.mask = mask, me.operand = operand, me.source = source;
        lanes_arrived[warp] |= bit;
        if ((lanes_arrived[warp] & mask) == mask) finish_warp_call(op, mask, warp);
        switch_away();
        return me.result;
    }

    void finish_warp_call(WarpOp op, unsigned mask, unsigned warp) {
        Fiber* lane = &fibers[warp * kLanes];
        uint64_t ballot = 0;
        for (unsigned i = 0; i < kLanes; ++i) {
            if (!(mask >> i & 1)) continue;
            if (lane[i].op != op || lane[i].mask != mask) fail("lanes of one warp met in different collectives");
            ballot |= uint64_t(lane[i].operand != 0) << i;
        }
        const uint64_t undefined = random();   // the result of a shuffle from a lane outside the mask
        for (unsigned i = 0; i < kLanes; ++i) {
            if (!(mask >> i & 1)) continue;
            lane[i].result = ballot;
            if (op == WarpOp::kShuffle)
                lane[i].result = mask >> lane[i].source & 1 ? lane[lane[i].source].operand : undefined;
            if (op == WarpOp::kMatch) lane[i].result = lanes_that_match(lane, mask, lane[i].operand);
        }
        lanes_arrived[warp] &= ~mask;
        for (unsigned i = 0; i < kLanes; ++i)
            if (mask >> i & 1) make_ready(warp * kLanes + i);
    }

    static unsigned lanes_that_match(const Fiber* lane, unsigned mask, uint64_t operand) {
        unsigned same = 0;
        for (unsigned i = 0; i < kLanes; ++i)
            if (mask >> i & 1 && lane[i].operand == operand) same |= 1u << i;
        return same;
    }

    void fiber_main() {
        const unsigned me = current;
        if (_setjmp(fibers[me].resume) == 0) setcontext(&home);
        for (;;) {
            body(body_arguments);
            fibers[me].state = State::kDone;
            --live;
            release_barrier_if_complete();   // a barrier waits only for threads that have not exited
            if (_setjmp(fibers[me].resume) == 0) run_next();
        }
    }

    static void enter_fiber(unsigned high, unsigned low) {
        reinterpret_cast<Worker*>(uintptr_t(high) << 32 | low)->fiber_main();
    }

    // Gives a new fiber its stack; it stops before the kernel's first line.
    void start_fiber() {
        current = unsigned(fibers.size());
        fibers.emplace_back();
        fibers[current].stack.reset(new char[kStackBytes]);
        ucontext_t start;
        getcontext(&start);
        start.uc_stack.ss_sp = fibers[current].stack.get();
        start.uc_stack.ss_size = kStackBytes;
        const auto self = reinterpret_cast<uintptr_t>(this);
        makecontext(&start, reinterpret_cast<void (*)()>(enter_fiber), 2, unsigned(self >> 32), unsigned(self));
        swapcontext(&home, &start);
    }

    void begin_launch() {
        if (error) fibers.clear();   // some have not finished the launch that failed
        error = nullptr;
        at_barrier = votes = 0;
        threads = block.x * block.y * block.z;
        lanes_arrived.assign((threads + kLanes - 1) / kLanes, 0);
        while (fibers.size() < threads) start_fiber();
        for (unsigned t = 0; t < threads; ++t)
            fibers[t].thread_index = {t % block.x, t / block.x % block.y, t / block.x / block.y};
    }

    void run_block(uint64_t linear_index) {
        block_index = {unsigned(linear_index % grid.x), unsigned(linear_index / grid.x % grid.y),
                       unsigned(linear_index / grid.x / grid.y)};
        even_draw_mask = kEvenDrawMasks[random() % 4];
        live = threads;
        ready.clear();
        for (unsigned f = 0; f < threads; ++f) make_ready(f);
        if (_setjmp(scheduler) == 0) run_next();
        if (live > 0 && !error) error = "threads of a block wait for each other in different places";
    }
};

inline thread_local Worker* worker = nullptr;

// Fills this thread's copy of every __shared__ array (the thread-local segment of this library).
inline void poison_shared_memory(int byte) {
    struct Fill { uintptr_t marker; int byte; } fill{reinterpret_cast<uintptr_t>(&worker), byte};
    Worker* const kept = worker;
    dl_iterate_phdr([](dl_phdr_info* module, size_t, void* argument) {
        const auto& want = *static_cast<Fill*>(argument);
        const auto begin = reinterpret_cast<uintptr_t>(module->dlpi_tls_data);
        for (int i = 0; begin && i < module->dlpi_phnum; ++i) {
            const auto& segment = module->dlpi_phdr[i];
            if (segment.p_type != PT_TLS || want.marker - begin >= segment.p_memsz) continue;
            memset(module->dlpi_tls_data, want.byte, segment.p_memsz);
            return 1;
        }
        return 0;
    }, &fill);
    worker = kept;
}

// The dynamic shared memory of this thread, and how much of it a launch asked for.
struct DynamicShared {
    unsigned char* (*memory)();
    size_t bytes;

    bool is_overrun(int poison) const {
        for (size_t i = bytes; memory && i < bytes + kCheckedBytes; ++i)
            if (memory()[i] != poison) return true;
        return false;
    }
};

inline void run_blocks(Worker& mine, std::atomic<uint64_t>& next_block, uint64_t seed, DynamicShared dynamic) {
    worker = &mine;
    mine.begin_launch();
    const uint64_t blocks = uint64_t(mine.grid.x) * mine.grid.y * mine.grid.z;
    for (uint64_t b; !mine.error && (b = next_block++) < blocks;) {
        // Every (seed, block) has its own random stream; the odd factor (2^64 / golden ratio) separates close seeds.
        mine.random_state = (seed * blocks + b + 1) * 0x9E3779B97F4A7C15ull | 1;
        const int poison = int(mine.random() & 0xFF);
        poison_shared_memory(poison);
        mine.run_block(b);
        if (!mine.error && dynamic.is_overrun(poison)) mine.error = "a write past the dynamic shared memory";
    }
}

// Runs a grid of blocks on the OS threads. Returns a message if the kernel broke a rule.
inline const char* run_grid(dim3 grid, dim3 block, DynamicShared dynamic, uint64_t seed, void (*body)(void*),
                            void* body_arguments) {
    if (dynamic.bytes > kMostDynamicBytes) return "more dynamic shared memory than a block can have";
    if (dynamic.bytes && !dynamic.memory) return "dynamic shared memory for a kernel that has none";
    static Worker workers[kOsThreads];
    static std::mutex one_launch;
    const std::lock_guard<std::mutex> lock(one_launch);
    std::atomic<uint64_t> next_block{0};
    std::vector<std::thread> threads;
    for (Worker& mine : workers) {
        mine.grid = grid, mine.block = block, mine.body = body, mine.body_arguments = body_arguments;
        threads.emplace_back([&] { run_blocks(mine, next_block, seed, dynamic); });
    }
    for (auto& thread : threads) thread.join();
    for (const Worker& mine : workers)
        if (mine.error) return mine.error;
    return nullptr;
}

template <class... Parameters>
struct Call {
    void (*kernel)(Parameters...);
    void** arguments;

    template <size_t... I>
    void run(std::index_sequence<I...>) const {
        kernel(*static_cast<std::remove_const_t<Parameters>*>(arguments[I])...);
    }
};

// Launches a kernel as CUDA's own interface does: `arguments` point to the values of its parameters.
template <class... Parameters>
const char* launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, DynamicShared dynamic, uint64_t seed,
                   void** arguments) {
    Call<Parameters...> call{kernel, arguments};
    const auto body = [](void* c) {
        static_cast<Call<Parameters...>*>(c)->run(std::index_sequence_for<Parameters...>());
    };
    return run_grid(grid, block, dynamic, seed, body, &call);
}

// Bytes of each parameter, zero-terminated, so that the caller can check its arguments.
template <class... Parameters>
const unsigned* parameter_bytes(void (*)(Parameters...)) {
    static const unsigned bytes[] = {sizeof(Parameters)..., 0};
    return bytes;
}

}  // namespace host_cuda
