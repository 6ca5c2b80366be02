#pragma once
// Moving registers between the warpgroups of a CTA (PTX ISA, section "setmaxnreg").

namespace ptx {

// setmaxnreg.dec.sync.aligned.u32: this warpgroup releases its registers beyond `count` per thread
template <int count>
__device__ __forceinline__ void registers_down() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(count));
}

// setmaxnreg.inc.sync.aligned.u32: this warpgroup waits until it has `count` registers per thread
template <int count>
__device__ __forceinline__ void registers_up() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(count));
}

}  // namespace ptx
