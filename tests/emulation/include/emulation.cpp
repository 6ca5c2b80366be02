// The scheduler of emulation.cuh, and dynamic shared memory.
#include "emulation.cuh"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(...)
#define ASAN_UNPOISON_MEMORY_REGION(...)
#endif

namespace emulation {
Cta* cta;
Thread* current;
void* scheduler;
}

// Dynamic shared memory, under the name that the kernels give it, whatever type they give it.
alignas(1024) char shared[256 * 1024];

// Saves the registers that a function must keep, and continues where `to` was left.
asm(R"(
.text
.globl emulation_switch
emulation_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
)");

namespace emulation {
namespace {

constexpr std::size_t STACK = 64 * 1024;
const std::function<void()>* body_of_launch;

void enter() {
    (*body_of_launch)();
    for (const auto& group : current->copies) {
        if (!group.empty()) fail("a thread ends with copies that it has not waited for");
    }
    current->ended = true;
    cta->ended[current->warp] |= 1u << current->lane;
    --cta->running;
    yield();
    std::abort();
}

}  // namespace

void run(dim3 grid, dim3 block, unsigned shared_bytes, const std::function<void()>& body) {
    const char* order = std::getenv("SPMM_ROOFLINE_ORDER");
    const bool reversed = order != nullptr && std::strcmp(order, "reversed") == 0;
    const int count = block.x * block.y * block.z;
    body_of_launch = &body;
    Cta own;
    own.grid = grid, own.block = block;
    own.threads.resize(count);
    cta = &own;
    // Stacks are kept for later launches; the system gives memory only to what is used of them.
    static std::vector<char*> stacks;
    while (static_cast<int>(stacks.size()) < count) stacks.push_back(static_cast<char*>(std::malloc(STACK)));
    for (int i = 0; i < count; ++i) own.threads[i].stack = stacks[i];
    // A sanitizer ends the process where a thread uses more than the launch asks for.
    const auto asked = std::min<std::size_t>(shared_bytes, sizeof shared);
    ASAN_UNPOISON_MEMORY_REGION(shared, asked);
    ASAN_POISON_MEMORY_REGION(shared + asked, sizeof shared - asked);
    for (unsigned number = 0; number < grid.x * grid.y * grid.z; ++number) {
        own.index = dim3(number % grid.x, number / grid.x % grid.y, number / grid.x / grid.y);
        own.all = Barrier();
        own.of_warp.assign((count + 31) / 32, {});
        own.ended.assign((count + 31) / 32, 0);
        if (count % 32) own.ended.back() = ~0u << count % 32;
        own.running = count;
        // What a CTA finds in shared memory is arbitrary.
        std::memset(shared, 0xff, asked);
        for (int i = 0; i < count; ++i) {
            Thread& thread = own.threads[i];
            thread.number = i, thread.lane = i % 32, thread.warp = i / 32, thread.ended = false;
            thread.index = dim3(i % block.x, i / block.x % block.y, i / block.x / block.y);
            thread.copies.assign(1, {});
            // A first frame: six registers, the address of `enter`, and one word that aligns the stack for it.
            auto top = (reinterpret_cast<std::uintptr_t>(thread.stack) + STACK) & ~std::uintptr_t(15);
            void** frame = reinterpret_cast<void**>(top) - 8;
            frame[6] = reinterpret_cast<void*>(&enter);
            frame[7] = nullptr;
            thread.stack_pointer = frame;
        }
        long long idle = 0;
        while (own.running > 0) {
            const int before = own.running;
            for (int i = 0; i < count; ++i) {
                current = &own.threads[reversed ? count - 1 - i : i];
                if (!current->ended) emulation_switch(&scheduler, current->stack_pointer);
            }
            idle = own.running == before ? idle + 1 : 0;
            if (idle > 50'000'000 / count) fail("threads wait for each other for ever");
        }
    }
}

}  // namespace emulation
