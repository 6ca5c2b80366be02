#pragma once
namespace ptx {

template <class T>
inline T kept(T value) { return value; }

}  // namespace ptx
