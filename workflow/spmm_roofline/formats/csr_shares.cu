// Packs a CSR in device memory in pieces of rows of about equal cost. builder.cuh stands before.

namespace {

// Parts of a row, and on which stretch of the path of all costs it begins.
__device__ int parts_of(const int* begins, int row, int longest) {
    return (begins[row + 1] - begins[row] + longest - 1) / longest;
}
__device__ int stretch_of(const int* begins, int row, int piece_cost) { return (begins[row] + COST * row) / piece_cost; }

__device__ bool leads(const int* begins, int row, int piece_cost, int longest) {
    return row == 0 || parts_of(begins, row, longest) > 1 || parts_of(begins, row - 1, longest) > 1 ||
        stretch_of(begins, row, piece_cost) != stretch_of(begins, row - 1, piece_cost);
}

}  // namespace

// How many pieces begin before each row, and how many of them are parts of rows. `numbers` are those of slots, pieces and
// parts.
extern "C" __global__ void __launch_bounds__(CTA) count_pieces(
    const int* __restrict__ begins, int m, int most, int groups, Count* states, int* __restrict__ first,
    int* __restrict__ part, int* __restrict__ numbers) {
    const int cost = begins[m] + COST * m, shares = max(min(most, cost / LEAST_COST), 1);
    const int of_group = static_cast<int>(cost / (static_cast<long long>(shares) * groups));
    const int piece_cost = min(max(of_group / PIECES_PER_GROUP, LEAST_PIECE), MOST_PIECE);
    const int longest = min(max(LONG_GROUPS * min(of_group, MOST_LONG), LEAST_LONG), MOST_LONG);
    const int row = thread_in_turn(states);
    int count = 0, own = 0;
    if (row < m) count = parts_of(begins, row, longest), own = leads(begins, row, piece_cost, longest) ? count : 0;
    const Count up_to = summed(both(own, count > 1 ? count : 0), row, states);
    if (row == 0) first[0] = part[0] = 0;
    if (row < m) first[row + 1] = low_of(up_to), part[row + 1] = high_of(up_to);
    if (row == max(m, 1) - 1) numbers[0] = begins[m], numbers[1] = low_of(up_to), numbers[2] = high_of(up_to);
}

// The pieces of all rows, the slots before them marked as ends, and of each part the first one of its row, how many there
// are, the row, and its first piece; `first` and `part` count the pieces and the parts of the rows before.
extern "C" __global__ void place_pieces(
    const int* __restrict__ begins, const int* __restrict__ first, const int* __restrict__ part, int m,
    int* __restrict__ columns, int2* __restrict__ pieces, int4* __restrict__ cut) {
    const int row = thread();
    if (row == m) pieces[first[m]] = make_int2(begins[m], 0);
    if (row >= m) return;
    const int begin = begins[row], length = begins[row + 1] - begin, count = first[row + 1] - first[row];
    const bool is_cut = part[row + 1] > part[row];
    for (int i = 0; i < count; ++i) {
        const int at = begin + static_cast<int>(static_cast<long long>(length) * i / count), number = part[row] + i;
        pieces[first[row] + i] = make_int2(at, is_cut ? ~number : row);
        if (is_cut) cut[number] = make_int4(part[row], count, row, first[row]);
        if (i > 0) columns[at - 1] = ~columns[at - 1];
    }
}

// The first piece of each share: a piece belongs where its middle does, or that of its row.
extern "C" __global__ void share_pieces(
    const int2* __restrict__ pieces, const int4* __restrict__ cut, int count, int cost, int shares, int groups,
    int* __restrict__ work) {
    const int share = thread();
    if (share > shares) return;
    const long long goal = 2 * (static_cast<long long>(share) * cost / shares);
    const auto paid = [&](int piece) {
        if (piece == count) return static_cast<long long>(cost);
        const int2 of = pieces[piece];
        return of.x + static_cast<long long>(COST) * (of.y < 0 ? cut[~of.y].z : of.y);
    };
    const long long kept = max(static_cast<long long>(cost / shares / KEPT_PART), static_cast<long long>(KEPT) * groups);
    const auto twice_middle = [&](int piece) {
        int first = piece, after = piece + 1;
        const int row = pieces[piece].y;
        if (row < 0) {
            const int4 of = cut[~row];
            if (paid(of.w + of.y) - paid(of.w) <= kept) first = of.w, after = of.w + of.y;
        }
        return paid(first) + paid(after);
    };
    int low = 0, high = count;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        if (twice_middle(middle) < goal) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    work[share] = low;
}
