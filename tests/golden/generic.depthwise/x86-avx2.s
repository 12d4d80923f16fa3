; generic.depthwise version 1 on x86-avx2
; dwconv2d-u8s8-1x14x14x64-k3x3x1-s1-p0-float.c-u8
; tile_columns=4, tile_blocks=1, outer=image
; all code: 414 lines, sha256 68c9bafd7cefa6429651b6c3e481fe5ce7ddbb14e4b85517ee0ea515fa5a62b9
; inner loop: 149 instructions, 36 products, 29 loads, 4 stores; on the stack 0 loads, 0 stores
L0:
 vpmovsxbd -64(%r0), %ymm0
 vpmovzxbd -2112(%r1,%r2), %ymm1
 vpmaddwd %ymm0, %ymm1, %ymm1
 vpmovzxbd -2048(%r1,%r2), %ymm2
 vpmaddwd %ymm0, %ymm2, %ymm3
 vpmovzxbd -1984(%r1,%r2), %ymm4
 vpmovzxbd -1920(%r1,%r2), %ymm5
 vpmaddwd %ymm0, %ymm4, %ymm6
 vpmaddwd %ymm0, %ymm5, %ymm0
 vpmovsxbd -56(%r0), %ymm7
 vpmaddwd %ymm2, %ymm7, %ymm2
 vpaddd %ymm1, %ymm2, %ymm1
 vpmaddwd %ymm4, %ymm7, %ymm2
 vpaddd %ymm2, %ymm3, %ymm2
 vpmaddwd %ymm5, %ymm7, %ymm3
 vpaddd %ymm6, %ymm3, %ymm3
 vpmovzxbd -1856(%r1,%r2), %ymm6
 vpmaddwd %ymm7, %ymm6, %ymm7
 vpaddd %ymm0, %ymm7, %ymm7
 vpmovsxbd -48(%r0), %ymm0
 vpmaddwd %ymm0, %ymm4, %ymm4
 vpmaddwd %ymm0, %ymm5, %ymm5
 vpmovzxbd -1792(%r1,%r2), %ymm8
 vpmaddwd %ymm0, %ymm6, %ymm6
 vpmaddwd %ymm0, %ymm8, %ymm8
 vpmovsxbd -40(%r0), %ymm9
 vpmovzxbd -1216(%r1,%r2), %ymm0
 vpmaddwd %ymm0, %ymm9, %ymm0
 vpaddd %ymm0, %ymm4, %ymm0
 vpaddd %ymm0, %ymm1, %ymm0
 vpmovzxbd -1152(%r1,%r2), %ymm10
 vpmaddwd %ymm9, %ymm10, %ymm1
 vpaddd %ymm1, %ymm5, %ymm1
 vpaddd %ymm1, %ymm2, %ymm1
 vpmovzxbd -1088(%r1,%r2), %ymm5
 vpmaddwd %ymm9, %ymm5, %ymm2
 vpaddd %ymm2, %ymm6, %ymm2
 vpmovzxbd -1024(%r1,%r2), %ymm6
 vpaddd %ymm2, %ymm3, %ymm4
 vpmaddwd %ymm9, %ymm6, %ymm2
 vpaddd %ymm2, %ymm8, %ymm2
 vpaddd %ymm2, %ymm7, %ymm2
 vpmovsxbd -32(%r0), %ymm3
 vpmaddwd %ymm10, %ymm3, %ymm7
 vpmaddwd %ymm5, %ymm3, %ymm8
 vpmovsxbd -24(%r0), %ymm9
 vpmaddwd %ymm5, %ymm9, %ymm5
 vpaddd %ymm5, %ymm7, %ymm5
 vpmaddwd %ymm6, %ymm9, %ymm7
 vpaddd %ymm7, %ymm8, %ymm7
 vpmovzxbd -960(%r1,%r2), %ymm8
 vpmaddwd %ymm6, %ymm3, %ymm6
 vpmaddwd %ymm3, %ymm8, %ymm3
 vpmaddwd %ymm8, %ymm9, %ymm8
 vpaddd %ymm8, %ymm6, %ymm8
 vpmovzxbd -896(%r1,%r2), %ymm6
 vpmaddwd %ymm9, %ymm6, %ymm6
 vpaddd %ymm6, %ymm3, %ymm9
 vpmovsxbd -16(%r0), %ymm10
 vpmovzxbd -320(%r1,%r2), %ymm3
 vpmaddwd %ymm10, %ymm3, %ymm3
 vpaddd %ymm3, %ymm5, %ymm3
 vpmovzxbd -256(%r1,%r2), %ymm5
 vpaddd %ymm0, %ymm3, %ymm6
 vpmaddwd %ymm10, %ymm5, %ymm0
 vpaddd %ymm0, %ymm7, %ymm0
 vpaddd %ymm0, %ymm1, %ymm3
 vpmovzxbd -192(%r1,%r2), %ymm7
 vpmaddwd %ymm10, %ymm7, %ymm0
 vpaddd %ymm0, %ymm8, %ymm0
 vpaddd %ymm0, %ymm4, %ymm1
 vpmovzxbd -128(%r1,%r2), %ymm4
 vpmaddwd %ymm10, %ymm4, %ymm0
 vpaddd %ymm0, %ymm9, %ymm0
 vpaddd %ymm0, %ymm2, %ymm0
 vpmovsxbd -8(%r0), %ymm2
 vpmaddwd %ymm2, %ymm5, %ymm5
 vpmaddwd %ymm2, %ymm7, %ymm8
 vpmovsxbd (%r0), %ymm9
 vpmaddwd %ymm7, %ymm9, %ymm7
 vpaddd %ymm7, %ymm5, %ymm10
 vpmaddwd %ymm2, %ymm4, %ymm5
 vpmaddwd %ymm4, %ymm9, %ymm4
 vpaddd %ymm4, %ymm8, %ymm8
 vpmovzxbd -64(%r1,%r2), %ymm4
 vpmaddwd %ymm2, %ymm4, %ymm2
 vpmaddwd %ymm4, %ymm9, %ymm4
 vpaddd %ymm4, %ymm5, %ymm7
 vpmovzxbd (%r1,%r2), %ymm4
 vpmaddwd %ymm9, %ymm4, %ymm4
 vpaddd %ymm2, %ymm4, %ymm4
 vmovaps (%r3,%r2,4), %ymm2
 vmovdqa (%r4,%r2,4), %ymm5
 vpaddd %ymm5, %ymm10, %ymm9
 vpaddd %ymm9, %ymm6, %ymm6
 vcvtdq2ps %ymm6, %ymm6
 vmulps %ymm2, %ymm6, %ymm6
 vmaxps %ymm11, %ymm6, %ymm6
 vminps %ymm12, %ymm6, %ymm6
 vaddps %ymm13, %ymm6, %ymm6
 vpaddd %ymm14, %ymm6, %ymm6
 vextracti128 $1, %ymm6, %xmm9
 vpshufb %xmm15, %xmm9, %xmm9
 vpshufb %xmm15, %xmm6, %xmm6
 vpunpckldq %xmm9, %xmm6, %xmm6
 vmovq %xmm6, -192(%r5,%r2)
 vpaddd %ymm5, %ymm8, %ymm6
 vpaddd %ymm6, %ymm3, %ymm3
 vcvtdq2ps %ymm3, %ymm3
 vmulps %ymm2, %ymm3, %ymm3
 vmaxps %ymm11, %ymm3, %ymm3
 vminps %ymm12, %ymm3, %ymm3
 vaddps %ymm13, %ymm3, %ymm3
 vpaddd %ymm14, %ymm3, %ymm3
 vextracti128 $1, %ymm3, %xmm6
 vpshufb %xmm15, %xmm6, %xmm6
 vpshufb %xmm15, %xmm3, %xmm3
 vpunpckldq %xmm6, %xmm3, %xmm3
 vmovq %xmm3, -128(%r5,%r2)
 vpaddd %ymm5, %ymm7, %ymm3
 vpaddd %ymm1, %ymm3, %ymm1
 vcvtdq2ps %ymm1, %ymm1
 vmulps %ymm1, %ymm2, %ymm1
 vmaxps %ymm11, %ymm1, %ymm1
 vminps %ymm12, %ymm1, %ymm1
 vaddps %ymm13, %ymm1, %ymm1
 vpaddd %ymm1, %ymm14, %ymm1
 vextracti128 $1, %ymm1, %xmm3
 vpshufb %xmm15, %xmm3, %xmm3
 vpshufb %xmm15, %xmm1, %xmm1
 vpunpckldq %xmm3, %xmm1, %xmm1
 vmovq %xmm1, -64(%r5,%r2)
 vpaddd %ymm5, %ymm4, %ymm1
 vpaddd %ymm1, %ymm0, %ymm0
 vcvtdq2ps %ymm0, %ymm0
 vmulps %ymm0, %ymm2, %ymm0
 vmaxps %ymm11, %ymm0, %ymm0
 vminps %ymm12, %ymm0, %ymm0
 vaddps %ymm13, %ymm0, %ymm0
 vpaddd %ymm0, %ymm14, %ymm0
 vextracti128 $1, %ymm0, %xmm1
 vpshufb %xmm15, %xmm1, %xmm1
 vpshufb %xmm15, %xmm0, %xmm0
 vpunpckldq %xmm1, %xmm0, %xmm0
 vmovq %xmm0, (%r5,%r2)
 addq $8, %r2
 addq $72, %r0
 cmpq $64, %r2
 jne L0
