#pragma once
namespace ptx {

inline unsigned cvt_rna_tf32(float value) {
    return std::isnan(value) ? 0x7fffffffu : (__float_as_uint(value) + 0x1000u) & 0xffffe000u;
}

}  // namespace ptx
