#pragma once
namespace ptx {

inline float ex2(float x) { return std::exp2(x); }

}  // namespace ptx
