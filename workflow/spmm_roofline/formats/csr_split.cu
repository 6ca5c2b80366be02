// Packs a CSR in device memory in equal parts for groups of lanes. builder.cuh stands before.

// Where the groups of a share begin, from its first slot and the slot after its last one, instead of which `work` then
// says how many groups have slots. A CTA a share.
extern "C" __global__ void split(
    const int* __restrict__ begins, int m, int warps, int groups, int batch, int4* work, int2* __restrict__ places) {
    const int begin = work[blockIdx.x].x, end = work[blockIdx.x].y, of_warp = groups * batch;
    const int units = (end - begin + of_warp - 1) / of_warp, least = units / warps, more = units % warps;
    int busy = 0;
    for (int first = 0; first < warps * groups; first += blockDim.x) {
        const int own = first + threadIdx.x, warp = own / groups, group = own % groups;
        bool has = false;
        if (own < warps * groups) {
            const int before = least * warp + min(warp, more);
            const long long ahead = static_cast<long long>(batch) * (groups * before + (least + (warp < more)) * group);
            const int slot = static_cast<int>(min(begin + ahead, static_cast<long long>(end)));
            const int row = range_of(begins, m, slot);
            places[blockIdx.x * warps * groups + own] = make_int2(slot, begins[row] == slot ? row : ~row);
            has = slot < end;
        }
        busy += __syncthreads_count(has);
    }
    if (threadIdx.x == 0) {
        work[blockIdx.x].y = busy;
        if (blockIdx.x == gridDim.x - 1) places[gridDim.x * warps * groups] = make_int2(end, m);
    }
}
