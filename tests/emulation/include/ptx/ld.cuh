#pragma once
namespace ptx {

template <class Word>
inline Word load_here(const Word* global) {
    if (reinterpret_cast<std::size_t>(global) % sizeof(Word)) emulation::fail("an address of ld is not aligned");
    return *global;
}

}  // namespace ptx
