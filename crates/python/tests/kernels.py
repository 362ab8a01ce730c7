"""PTX that the tests launch."""

HEAD = ".version 8.7\n.target sm_120\n.address_size 64\n"

#: c = a + b, for n elements.
ADD = HEAD + """
.visible .entry add(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)
{
 .reg .b64 p, q, r, o; .reg .b32 i, m, x; .reg .f32 f, g; .reg .pred out;
 ld.param.u64 p, [a]; ld.param.u64 q, [b]; ld.param.u64 r, [c]; ld.param.u32 m, [n];
 mov.u32 i, %ctaid.x; mov.u32 x, %ntid.x; mul.lo.u32 i, i, x; mov.u32 x, %tid.x; add.u32 i, i, x;
 setp.ge.u32 out, i, m;
 @out ret;
 mul.wide.u32 o, i, 4; add.u64 p, p, o; add.u64 q, q, o; add.u64 r, r, o;
 ld.global.f32 f, [p]; ld.global.f32 g, [q]; add.f32 f, f, g; st.global.f32 [r], f;
 ret;
}
"""

#: y = a * b + c, of which PTX leaves open whether it rounds once.
OPEN = HEAD + """
.visible .entry open(.param .u64 x, .param .u64 y)
{
 .reg .b64 p, q; .reg .b32 i; .reg .f32 a, b, c, d;
 ld.param.u64 p, [x]; ld.param.u64 q, [y]; mov.u32 i, %tid.x;
 mad.wide.u32 p, i, 12, p; mad.wide.u32 q, i, 4, q;
 ld.global.f32 a, [p]; ld.global.f32 b, [p+4]; ld.global.f32 c, [p+8];
 mul.f32 d, a, b; add.f32 d, d, c;
 st.global.f32 [q], d;
 ret;
}
"""

#: Each thread stores its number in shared memory and reads that of the last warp; with no barrier, a race.
REVERSE = HEAD + """
.visible .entry reverse(.param .u64 out)
{
 .reg .b64 p; .reg .b32 i, j, a, x;
 .shared .align 4 .b8 words[256];
 ld.param.u64 p, [out];
 mov.u32 i, %tid.x; shl.b32 a, i, 2; mov.u32 x, words; add.u32 a, a, x;
 st.shared.u32 [a], i;
 BARRIER
 sub.u32 j, 63, i; shl.b32 a, j, 2; add.u32 a, a, x;
 ld.shared.u32 j, [a];
 mad.wide.u32 p, i, 4, p;
 st.global.u32 [p], j;
 ret;
}
"""

#: Counts down for ever.
FOREVER = HEAD + """
.visible .entry forever()
{
 .reg .b32 i;
 mov.u32 i, 0;
again:
 add.u32 i, i, 1;
 bra again;
}
"""

#: A box of a tensor map into shared memory, and out to `out`.
BOX = """.version 8.7
.target sm_120a
.address_size 64
.visible .entry box(.param .align 64 .b8 map[128], .param .u64 out, .param .u32 x, .param .u32 y)
{
 .reg .b64 m, p; .reg .b32 i, a, b, c, d, s; .reg .pred first, done;
 .shared .align 128 .b8 tile[512];
 .shared .align 8 .b8 full[8];
 mov.b64 m, map; cvta.param.u64 m, m; ld.param.u64 p, [out]; ld.param.u32 c, [x]; ld.param.u32 d, [y];
 mov.u32 i, %tid.x; setp.eq.u32 first, i, 0; mov.u32 b, full; mov.u32 s, tile;
 @first mbarrier.init.shared.b64 [b], 1;
 @first fence.mbarrier_init.release.cluster;
 @first fence.proxy.async;
 bar.sync 0;
 @first mbarrier.arrive.expect_tx.shared.b64 _, [b], 512;
 @first cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [s], [m, {c, d}], [b];
wait:
 mbarrier.try_wait.parity.shared.b64 done, [b], 0;
 @!done bra wait;
 shl.b32 a, i, 2; add.u32 s, s, a; mad.wide.u32 p, i, 4, p;
 ld.shared.u32 a, [s]; st.global.u32 [p], a;
 ld.shared.u32 a, [s+256]; st.global.u32 [p+256], a;
 ret;
}
"""
