# One row for each tier of instructions: the files of the list `sources` that are named *_TIER.cpp, the processors that they are
# for, their flags.
# Sanitizers check a tier's text where it is compiled as plain C++: elsewhere it is the same text, the checks take minutes
# to compile, and guarded memory shows what leaves a tensor (tests/memory). The block codec's loops are short, and threads
# share what they read: they are checked in each tier. -mtune: tuned for "generic", gcc 12 spills addresses into vector
# registers, which costs the contraction kernels a tenth of their speed; it also warns of uninitialized values in its own
# intrinsics.
macro(octet_tier tier processors)
  set(of_tier ${sources})
  list(FILTER of_tier INCLUDE REGEX "_${tier}\\.cpp$")
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "${processors}")
    set_property(SOURCE ${of_tier} APPEND PROPERTY COMPILE_OPTIONS ${ARGN})
    if(OCTET_SANITIZE AND "${processors}" STREQUAL "${x86}")
      list(FILTER of_tier EXCLUDE REGEX "/block_loops_")
      set_property(SOURCE ${of_tier} APPEND PROPERTY COMPILE_OPTIONS -fno-sanitize=all)
    endif()
  else()
    list(REMOVE_ITEM sources ${of_tier})
  endif()
endmacro()
set(x86 "x86_64|AMD64")
set(avx512 -mavx2 -mfma -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni -mprefer-vector-width=512
  -mtune=icelake-server -Wno-maybe-uninitialized)
octet_tier(scalar ".*")
octet_tier(avx2 "${x86}" -mavx2 -mfma)
octet_tier(avx_vnni "${x86}" -mavx2 -mfma)
octet_tier(avx512 "${x86}" ${avx512})
octet_tier(amx "${x86}" ${avx512} -mamx-tile -mamx-int8)
octet_tier(neon_dot "aarch64|arm64" -march=armv8.2-a+dotprod)
octet_tier(neon_i8mm "aarch64|arm64" -march=armv8.2-a+dotprod+i8mm)
