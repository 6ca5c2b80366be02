#pragma once
// Copies happen as late as they may: when the thread waits for their group.
namespace ptx {

inline void emulated_copy(void* shared, const void* global, int bytes, bool wanted = true) {
    const auto aligned = [&](const void* p) { return reinterpret_cast<std::size_t>(p) % bytes == 0; };
    if (!aligned(shared) || (wanted && !aligned(global))) emulation::fail("an address of cp.async is not aligned");
    emulation::current->copies.back().push_back({shared, global, bytes, wanted ? bytes : 0});
}
inline void cp_async_16(void* shared, const void* global) { emulated_copy(shared, global, 16); }
inline void cp_async_16_or_zero(void* shared, const void* global, bool wanted) {
    emulated_copy(shared, global, 16, wanted);
}
inline void cp_async_commit() { emulation::current->copies.emplace_back(); }
template <int pending>
inline void cp_async_wait() {
    auto& copies = emulation::current->copies;
    while (static_cast<int>(copies.size()) > pending + 1) {
        for (const auto& copy : copies.front()) {
            std::memset(copy.to, 0, copy.bytes);
            if (copy.read) std::memcpy(copy.to, copy.from, copy.read);
        }
        copies.erase(copies.begin());
    }
}

}  // namespace ptx
