#pragma once
namespace ptx {

inline unsigned atomic_inc_release(unsigned* count, unsigned last) { return atomicInc(count, last); }

}  // namespace ptx
