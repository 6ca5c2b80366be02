#pragma once
#include "ptx/mbarrier.cuh"
namespace ptx {

// What tests/emulation/device.py puts in place of the driver's words.
struct alignas(64) TensorMap {
    unsigned long long address, columns, rows, row_bytes, box_columns, box_rows, size, unused[9];
};

inline void tma_load(void* shared, const TensorMap& map, int row, int column, unsigned long long* barrier) {
    const std::size_t to = reinterpret_cast<std::size_t>(shared), pitch = map.box_columns * map.size;
    if (to % (8 * pitch)) emulation::fail("a box does not begin at a multiple of eight of its rows");
    for (long long r = 0; r < map.box_rows; ++r) {
        for (long long c = 0; c < map.box_columns; ++c) {
            const std::size_t at = to + r * pitch + c * map.size, units = pitch / 16 - 1;
            char* into = reinterpret_cast<char*>(at ^ (at >> 7 & units) << 4);
            if (row + r < map.rows && column + c < map.columns) {
                const std::size_t from = map.address + (row + r) * map.row_bytes + (column + c) * map.size;
                std::memcpy(into, reinterpret_cast<const char*>(from), map.size);
            } else {
                std::memset(into, 0, map.size);
            }
        }
    }
    emulated::count(barrier, 0, -static_cast<int>(map.box_rows * pitch));
}

}  // namespace ptx
