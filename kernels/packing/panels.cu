/*---
name: panels
study: packing
source: this project
idea: a bit per column in shared memory marks what a panel uses, and the bits before it number a column
min_arch: sm_80
features: []
deviations: []
---*/
// Packs a CSR in device memory as panels of 64 rows and tiles of 32 of their columns (formats/panels_64x32.py). One CTA
// a panel.
#include "packing/scan.cuh"
#include "packing/search.cuh"

namespace {

using namespace packing;

constexpr int ROWS = 64, COLUMNS = 32, RUN = 4, TILE_BYTES = 2 * ROWS * COLUMNS, WARPS = CTA / 32;
// Words of 32 columns that a CTA marks at once; a panel whose columns lie further apart is marked in several sections.
constexpr int WORDS = 4096, SECTION = 32 * WORDS, WORDS_OF_WARP = WORDS / WARPS;
// Tiles whose entries a CTA counts at once, row by row.
constexpr int TILES = 64;
// How work is split and dealt (formats/panels_64x32.py), and the threads of the one CTA that splits.
constexpr int PANEL_COST = 2, ROUND = 4, MOST_PARTITIONS = 512, CUTTER = 1024;

// The columns of a panel in one section: a bit each, and how many of the section come before each word.
struct Marked {
    unsigned bits[WORDS];
    unsigned short before[WORDS];
    int before_warp[WARPS + 1];

    __device__ int rank(int offset) const {
        const int word = offset / 32;
        return before_warp[word / WORDS_OF_WARP] + before[word] + __popc(bits[word] & ((1u << offset % 32) - 1));
    }
};

// Rows of this CTA's panel, and the sections in which their columns lie.
struct Panel {
    int number, first_row, rows, first_section, end_section;
};

__device__ Panel panel_of(const int* indptr, const int* indices, int m, int number) {
    __shared__ int low, high;
    if (threadIdx.x == 0) low = 0x7FFFFFFF, high = -1;
    __syncthreads();
    Panel panel = {number, number * ROWS, min(ROWS, m - number * ROWS), 0, 0};
    if (threadIdx.x < panel.rows) {
        const int begin = indptr[panel.first_row + threadIdx.x], end = indptr[panel.first_row + threadIdx.x + 1];
        if (begin < end) atomicMin(&low, indices[begin]), atomicMax(&high, indices[end - 1]);
    }
    __syncthreads();
    if (high >= 0) panel.first_section = low / SECTION, panel.end_section = high / SECTION + 1;
    return panel;
}

// `visit(row, entry, column)` for the entries of the panel, a row a warp, 32 entries at a time; `visit` gets -1 as the
// column of lanes beyond the end of a row.
template <class Visit>
__device__ void each_entry(const int* indptr, const int* indices, const Panel& panel, const Visit& visit) {
    for (int row = threadIdx.x / 32; row < panel.rows; row += WARPS) {
        const int begin = indptr[panel.first_row + row], end = indptr[panel.first_row + row + 1];
        for (int first = begin; first < end; first += 32) {
            const int entry = first + threadIdx.x % 32;
            visit(row, entry, entry < end ? indices[entry] : -1);
        }
    }
}

// `visit(row, entry, rank, takes)` for the entries of each row from `at[row]` on whose `rank_of(column)` is below `end_rank`;
// those behind them have higher ranks, because columns ascend. All lanes of a warp call, and those of such entries take.
// Then `at[row]` is the first entry that was not visited.
template <class Rank, class Visit>
__device__ void each_entry_up_to(
    const int* indptr, const int* indices, const Panel& panel, int (&at)[ROWS], int end_rank, const Rank& rank_of,
    const Visit& visit) {
    for (int row = threadIdx.x / 32; row < panel.rows; row += WARPS) {
        const int end = indptr[panel.first_row + row + 1];
        int first = at[row], visited = 32;
        for (; first < end && visited == 32; first += visited) {
            const int entry = first + threadIdx.x % 32, rank = entry < end ? rank_of(indices[entry]) : end_rank;
            visited = __popc(__ballot_sync(~0u, rank < end_rank));
            visit(row, entry, rank, rank < end_rank);
        }
        __syncwarp();
        if (threadIdx.x % 32 == 0) at[row] = first;
    }
}

// Marks the columns of a section and numbers them. The whole CTA calls it.
__device__ void mark(const int* indptr, const int* indices, const Panel& panel, int section, Marked& marked) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    __syncthreads();
    for (int i = threadIdx.x; i < WORDS; i += CTA) marked.bits[i] = 0;
    __syncthreads();
    each_entry(indptr, indices, panel, [&](int, int, int column) {
        const int offset = column - section * SECTION;
        if (column >= 0 && offset >= 0 && offset < SECTION) atomicOr(&marked.bits[offset / 32], 1u << offset % 32);
    });
    __syncthreads();
    int sum = 0;
    for (int first = warp * WORDS_OF_WARP; first < (warp + 1) * WORDS_OF_WARP; first += 32) {
        const int own = __popc(marked.bits[first + lane]);
        int up_to = own;
        for (int distance = 1; distance < 32; distance *= 2) {
            const int below = __shfl_up_sync(~0u, up_to, distance);
            if (lane >= distance) up_to += below;
        }
        marked.before[first + lane] = static_cast<unsigned short>(sum + up_to - own);
        sum += __shfl_sync(~0u, up_to, 31);
    }
    if (lane == 0) marked.before_warp[warp + 1] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        marked.before_warp[0] = 0;
        for (int i = 0; i < WARPS; ++i) marked.before_warp[i + 1] += marked.before_warp[i];
    }
    __syncthreads();
}

// `use(section, before)` for each section of a panel, which is then marked; the panel has `before` columns in earlier
// sections. `marked_section` is the one that is marked, before and after. Returns the number of columns.
template <class Use>
__device__ int each_section(
    const int* indptr, const int* indices, const Panel& panel, Marked& marked, int& marked_section, const Use& use) {
    int before = 0;
    for (int section = panel.first_section; section < panel.end_section; ++section) {
        if (section != marked_section) mark(indptr, indices, panel, section, marked);
        marked_section = section;
        use(section, before);
        before += marked.before_warp[WARPS];
    }
    return before;
}

// First slot of the entries of a panel whose first tile is `tile`: what fills the runs of the panels before it fits in
// four slots for each of their tiles, and four for each panel.
__device__ int first_slot(const int* indptr, int first_row, int panel, int tile) {
    return (indptr[first_row] + RUN - 1) / RUN * RUN + RUN * (tile + panel);
}

template <class Bits>
__device__ void pack_panel(
    const int* indptr, const int* indices, const Bits* values, const int* begins, int m, int* columns, int2* runs,
    unsigned short* positions, Bits* data) {
    __shared__ Marked marked;
    // Entries of a row in a tile, later the slot of the next one.
    __shared__ int slots[ROWS][TILES];
    // The next entry of each row to count, and to scatter.
    __shared__ int counted[ROWS], scattered[ROWS];
    __shared__ int next_slot, last_column;
    const Panel panel = panel_of(indptr, indices, m, blockIdx.x);
    const int tile = begins[panel.number], tiles = begins[panel.number + 1] - tile;
    const int end_row = panel.first_row + panel.rows, end = first_slot(indptr, end_row, panel.number + 1, tile + tiles);
    if (threadIdx.x == 0) next_slot = first_slot(indptr, panel.first_row, panel.number, tile), last_column = 0;
    __syncthreads();
    for (int i = next_slot + threadIdx.x; i < end; i += CTA) positions[i] = TILE_BYTES, data[i] = 0;

    int marked_section = -1;
    const auto use_columns = [&](int section, int before) {
        for (int word = threadIdx.x; word < WORDS; word += CTA) {
            for (unsigned bits = marked.bits[word]; bits != 0; bits &= bits - 1) {
                const int offset = 32 * word + __ffs(bits) - 1, column = section * SECTION + offset;
                columns[tile * COLUMNS + before + marked.rank(offset)] = column;
                atomicMax(&last_column, column);
            }
        }
    };
    const int used = each_section(indptr, indices, panel, marked, marked_section, use_columns);
    __syncthreads();
    for (int i = used + threadIdx.x; i < tiles * COLUMNS; i += CTA) columns[tile * COLUMNS + i] = last_column;

    // A row's entries of a group of tiles follow those of the group before.
    if (threadIdx.x < panel.rows) scattered[threadIdx.x] = indptr[panel.first_row + threadIdx.x];
    for (int group = 0; group < tiles; group += TILES) {
        // The rank of a column among those of the group. What is left of an earlier section belongs to a later group.
        const auto rank_of = [&](int section, int before) {
            return [&, section, before](int column) {
                const int offset = column - section * SECTION;
                const bool is_marked = offset >= 0 && offset < SECTION;
                return is_marked ? before + marked.rank(offset) - group * COLUMNS : TILES * COLUMNS;
            };
        };
        __syncthreads();
        for (int i = threadIdx.x; i < ROWS * TILES; i += CTA) slots[i / TILES][i % TILES] = 0;
        if (threadIdx.x < panel.rows) counted[threadIdx.x] = scattered[threadIdx.x];
        __syncthreads();
        const auto count = [&](int section, int before) {
            const auto one = [&](int row, int, int rank, bool takes) {
                if (takes) atomicAdd(&slots[row][rank / COLUMNS], 1);
            };
            each_entry_up_to(indptr, indices, panel, counted, TILES * COLUMNS, rank_of(section, before), one);
        };
        each_section(indptr, indices, panel, marked, marked_section, count);
        __syncthreads();
        int entries = 0, slots_of_group;
        if (threadIdx.x < TILES) {
            for (int row = 0; row < ROWS; ++row) {
                const int count = slots[row][threadIdx.x];
                slots[row][threadIdx.x] = entries;
                entries += count;
            }
        }
        const int filled = (entries + RUN - 1) / RUN * RUN;
        const int begin = next_slot + scan_cta<CTA>(filled, slots_of_group) - filled;
        if (threadIdx.x < TILES) {
            for (int row = 0; row < ROWS; ++row) slots[row][threadIdx.x] += begin;
            if (group + static_cast<int>(threadIdx.x) < tiles) {
                runs[tile + group + threadIdx.x] = make_int2(begin, begin + filled);
            }
        }
        __syncthreads();
        if (threadIdx.x == 0) next_slot += slots_of_group;
        // The lanes of a warp whose entries are in one tile take neighbouring slots.
        const auto scatter = [&](int section, int before) {
            const auto one = [&](int row, int entry, int rank, bool takes) {
                const int lane = threadIdx.x % 32, own = takes ? rank / COLUMNS : -1;
                const unsigned same = __match_any_sync(~0u, own);
                const int earlier = __popc(same & ((1u << lane) - 1));
                const int slot = takes ? slots[row][own] + earlier : 0;
                __syncwarp();
                if (takes) {
                    if (earlier == 0) slots[row][own] += __popc(same);
                    const int in_tile = rank % COLUMNS;
                    const int byte = row / 8 * (16 * COLUMNS) + in_tile / 8 * 128 + row % 8 * 16 + in_tile % 8 * 2;
                    positions[slot] = static_cast<unsigned short>(byte);
                    data[slot] = values[entry];
                }
                __syncwarp();
            };
            each_entry_up_to(indptr, indices, panel, scattered, TILES * COLUMNS, rank_of(section, before), one);
        };
        each_section(indptr, indices, panel, marked, marked_section, scatter);
    }
}

// The work of a partition, and its items.
struct Load {
    int work, items;
};

// The keys of a CTA's threads, ascending.
__device__ unsigned sorted(unsigned key) {
    __shared__ unsigned keys[MOST_PARTITIONS];
    const int own = threadIdx.x;
    for (int size = 2; size <= MOST_PARTITIONS; size *= 2) {
        for (int distance = size / 2; distance > 0; distance /= 2) {
            unsigned other;
            if (distance < 32) {
                other = __shfl_xor_sync(~0u, key, distance);
            } else {
                keys[own] = key;
                __syncthreads();
                other = keys[own ^ distance];
                __syncthreads();
            }
            key = ((own & size) == 0) == ((own & distance) == 0) ? min(key, other) : max(key, other);
        }
    }
    return key;
}

// The least key of the threads before this one; ~0 for the first.
__device__ unsigned least_before(unsigned key) {
    __shared__ unsigned of_warp[MOST_PARTITIONS / 32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    unsigned least = key;
    for (int distance = 1; distance < 32; distance *= 2) {
        const unsigned below = __shfl_up_sync(~0u, least, distance);
        if (lane >= distance) least = min(least, below);
    }
    if (lane == 31) of_warp[warp] = least;
    const unsigned of_lane = __shfl_up_sync(~0u, least, 1);
    least = lane > 0 ? of_lane : ~0u;
    __syncthreads();
    for (int i = 0; i < warp; ++i) least = min(least, of_warp[i]);
    return least;
}

// Deals the items in this order, each to the partition that has least work; among equals the first. With the partitions
// in the order of their work, each takes the next item, up to the first that has as much work as one of them then has.
__device__ void deal(
    const int4* items, const int* order, int count, int partitions, int2* dealt, Load (&loads)[MOST_PARTITIONS]) {
    __shared__ int dealt_to[MOST_PARTITIONS];
    const int own = threadIdx.x;
    // Work of a partition, then the partition itself, in the low bits.
    unsigned key = own < partitions ? own : ~0u;
    dealt_to[own] = 0;
    for (int first = 0; first < count;) {
        key = sorted(key);
        const bool there = own < min(partitions, count - first);
        const int item = there ? order[first + own] : 0;
        const unsigned cost = there ? items[item].y - items[item].x + PANEL_COST : 0;
        const unsigned loaded = there ? key + cost * MOST_PARTITIONS : ~0u;
        const unsigned least = least_before(loaded);
        const bool takes = there && key < least;
        if (takes) {
            const int partition = key % MOST_PARTITIONS;
            dealt[item] = make_int2(partition, dealt_to[partition]++);
            key = loaded;
        }
        first += __syncthreads_count(takes);
    }
    const int partition = key % MOST_PARTITIONS;
    if (key != ~0u) loads[partition] = {static_cast<int>(key / MOST_PARTITIONS), dealt_to[partition]};
}

}  // namespace

// First tile of each panel, begins[panels + 1]; the last element is the number of tiles. The caller clears `states`.
extern "C" __global__ void __launch_bounds__(packing::CTA) count_panels(
    const int* __restrict__ indptr, const int* __restrict__ indices, int m, packing::Count* states,
    int* __restrict__ begins) {
    __shared__ Marked marked;
    const int index = take_ticket(states), number = index / CTA;
    const Panel panel = panel_of(indptr, indices, m, number);
    int marked_section = -1;
    const int used = each_section(indptr, indices, panel, marked, marked_section, [](int, int) {});
    const int tiles = max((used + COLUMNS - 1) / COLUMNS, 1);
    const Count up_to = scan_grid(threadIdx.x == 0 ? tiles : 0, index, states);
    if (index == 0) begins[0] = 0;
    if (threadIdx.x == 0) begins[number + 1] = low_of(up_to);
}

// Items of work, in the order of the panels: a panel, or equal parts of one that is long for `partitions` partitions.
//
//   items[i]    first tile, tile after the last one, panel, partial sum or -1
//   cut[q]      first partial sum of the same panel, their number, the panel, 0
//   counts      tiles, items, partial sums
extern "C" __global__ void __launch_bounds__(CUTTER) cut_panels(
    const int* __restrict__ begins, int panels, int partitions, int4* __restrict__ items, int4* __restrict__ cut,
    int* __restrict__ counts) {
    const long long cost = begins[panels] + static_cast<long long>(PANEL_COST) * panels;
    int items_before = 0, partials_before = 0;
    for (int first = 0; first < panels; first += CUTTER) {
        const int panel = first + threadIdx.x;
        const int begin = panel < panels ? begins[panel] : 0, tiles = panel < panels ? begins[panel + 1] - begin : 0;
        const int wanted = static_cast<int>((2ll * tiles * partitions + 3 * cost - 1) / (3 * cost));
        const int most = max(static_cast<int>(sqrt(static_cast<double>(tiles / 4))), 1);
        const int parts = panel < panels ? min(wanted, most) : 0;
        const int cuts = parts > 1 ? parts : 0;
        Count total;
        const Count up_to = scan_cta<CUTTER>(pair(parts, cuts), total);
        const int item = items_before + low_of(up_to) - parts, partial = partials_before + high_of(up_to) - cuts;
        for (int part = 0; part < parts; ++part) {
            const int from = begin + static_cast<int>(static_cast<long long>(tiles) * part / parts);
            const int to = begin + static_cast<int>(static_cast<long long>(tiles) * (part + 1) / parts);
            items[item + part] = make_int4(from, to, panel, cuts > 0 ? partial + part : -1);
            if (cuts > 0) cut[partial + part] = make_int4(partial, parts, panel, 0);
        }
        items_before += low_of(total), partials_before += high_of(total);
    }
    if (threadIdx.x == 0) counts[0] = begins[panels], counts[1] = items_before, counts[2] = partials_before;
}

// The items longest first, in rounds of `round`; among equals the first one. Each round has CTAs for `round` items.
extern "C" __global__ void __launch_bounds__(CTA) order_items(
    const int4* __restrict__ items, int count, int round, int* __restrict__ order) {
    __shared__ int tiles[ROUND * MOST_PARTITIONS];
    const int ctas = (round + CTA - 1) / CTA, first = static_cast<int>(blockIdx.x) / ctas * round;
    const int here = min(round, count - first), own = static_cast<int>(blockIdx.x) % ctas * CTA + threadIdx.x;
    for (int i = threadIdx.x; i < here; i += CTA) tiles[i] = items[first + i].y - items[first + i].x;
    __syncthreads();
    if (own >= here) return;
    int earlier = 0;
#pragma unroll 8
    for (int i = 0; i < own; ++i) earlier += tiles[i] >= tiles[own];
#pragma unroll 8
    for (int i = own + 1; i < here; ++i) earlier += tiles[i] > tiles[own];
    order[first + earlier] = first + own;
}

// Deals the items, and numbers the partitions so that 2i has the i-th most work and 2i + 1 the i-th least. One CTA.
//
//   dealt[i]    partition of an item before they are numbered, and its number among the items of the partition
extern "C" __global__ void __launch_bounds__(MOST_PARTITIONS) deal_items(
    const int4* __restrict__ items, const int* __restrict__ order, int count, int partitions, int2* __restrict__ dealt,
    int* __restrict__ work_ptr, int4* __restrict__ work) {
    __shared__ Load loads[MOST_PARTITIONS];
    __shared__ int places[MOST_PARTITIONS], begins[MOST_PARTITIONS];
    const int own = threadIdx.x, half = (partitions + 1) / 2;
    deal(items, order, count, partitions, dealt, loads);
    begins[own] = 0;
    __syncthreads();
    if (own < partitions) {
        int rank = 0;
        for (int i = 0; i < partitions; ++i) {
            rank += loads[i].work > loads[own].work || (loads[i].work == loads[own].work && i < own);
        }
        places[own] = rank < half ? 2 * rank : 2 * (partitions - rank) - 1;
        begins[places[own]] = loads[own].items;
    }
    __syncthreads();
    int total;
    const int items_here = begins[own], up_to = scan_cta<MOST_PARTITIONS>(items_here, total);
    begins[own] = up_to - items_here;
    if (own < partitions) work_ptr[own + 1] = up_to;
    if (own == 0) work_ptr[0] = 0;
    __syncthreads();
    for (int item = own; item < count; item += MOST_PARTITIONS) {
        work[begins[places[dealt[item].x]] + dealt[item].y] = items[item];
    }
}

extern "C" __global__ void __launch_bounds__(packing::CTA) pack_panels_16(
    const int* __restrict__ indptr, const int* __restrict__ indices, const unsigned short* __restrict__ values,
    const int* __restrict__ begins, int m, int* __restrict__ columns, int2* __restrict__ runs,
    unsigned short* __restrict__ positions, unsigned short* __restrict__ data) {
    pack_panel(indptr, indices, values, begins, m, columns, runs, positions, data);
}

extern "C" __global__ void __launch_bounds__(packing::CTA) pack_panels_32(
    const int* __restrict__ indptr, const int* __restrict__ indices, const unsigned* __restrict__ values,
    const int* __restrict__ begins, int m, int* __restrict__ columns, int2* __restrict__ runs,
    unsigned short* __restrict__ positions, unsigned* __restrict__ data) {
    pack_panel(indptr, indices, values, begins, m, columns, runs, positions, data);
}

extern "C" __global__ void __launch_bounds__(packing::CTA) pack_panels_64(
    const int* __restrict__ indptr, const int* __restrict__ indices, const unsigned long long* __restrict__ values,
    const int* __restrict__ begins, int m, int* __restrict__ columns, int2* __restrict__ runs,
    unsigned short* __restrict__ positions, unsigned long long* __restrict__ data) {
    pack_panel(indptr, indices, values, begins, m, columns, runs, positions, data);
}
