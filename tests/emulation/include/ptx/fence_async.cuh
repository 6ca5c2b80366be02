#pragma once
namespace ptx {

inline void fence_proxy_async_shared() {}

}  // namespace ptx
