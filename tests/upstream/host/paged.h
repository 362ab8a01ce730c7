// A paged cache as FlashInfer has it: pages in no order, a last page that is not full, and NaN in every slot that no request owns.
#pragma once
#include <cmath>

#include "record.h"

struct Paged {
    int page, heads, dim, pages = 2;
    bool hnd;
    std::vector<int> lengths, indptr{0}, indices, last;

    Paged(std::vector<int> keys, int page, int heads, int dim, bool hnd) : page(page), heads(heads), dim(dim), hnd(hnd), lengths(keys) {
        for (int length : lengths) {
            indptr.push_back(indptr.back() + (length + page - 1) / page);
            last.push_back((length - 1) % page + 1);
        }
        // Two pages belong to nobody.
        pages += indptr.back();
        int step = 5;
        while (pages % step == 0) step += 2;
        for (int n = 0; n < indptr.back(); ++n) indices.push_back((n * step + 3) % pages);
    }
    size_t at(int of_page, int slot, int head, int width) const {
        return (hnd ? ((size_t)of_page * heads + head) * page + slot : ((size_t)of_page * page + slot) * heads + head) * width;
    }
    // A buffer of `width` elements for each slot and head; `make` gives those of the slots that are owned, by groups of `group` slots.
    template <class T, class Make> T* cache(const char* name, int width, T unused, Make make, int group = 1) const {
        std::vector<T> values((size_t)pages * page * heads * width, unused);
        for (size_t request = 0; request < lengths.size(); ++request)
            for (int key = 0; key < (lengths[request] + group - 1) / group * group; ++key)
                for (int head = 0; head < heads; ++head)
                    for (int d = 0; d < width; ++d)
                        values[at(indices[indptr[request] + key / page], key % page, head, width) + d] = make();
        return input(name, values);
    }
    template <class T> T* reals(const char* name, uint64_t seed, float scale = 1.0f) const {
        Numbers numbers(seed);
        return cache<T>(name, dim, T(NAN), [&] { return T(numbers.real() * scale); });
    }
    // NVFP4: codes in pairs, where no code is NaN, and a scale of its own, 1/4 to 15/8, for each slot, head and block of 16 elements.
    uint8_t* codes(const char* name, uint64_t seed) const {
        Numbers numbers(seed);
        return cache<uint8_t>(name, dim / 2, 0x77, [&] { return (uint8_t)numbers.next(); });
    }
    uint8_t* scales(const char* name, uint64_t seed) const {
        Numbers numbers(seed);
        // Layouts that mix slots mix four.
        return cache<uint8_t>(name, dim / 16, 0x7f, [&] { return (uint8_t)(0x28 + numbers.below(24)); }, 4);
    }
    // Steps from page to page, and in the order of the dimensions of slots and heads.
    std::vector<int64_t> steps(int64_t width) const { return {heads * page * width, (hnd ? page : heads) * width, width}; }
};
