# octet on CPUs. Build it in the checkout's folder, and mount the data and a folder for the runs:
#   docker build -f docker/cpu.Dockerfile -t octet .
#   mkdir -p runs && chmod a+rwx runs      # octet runs as a user that is neither root nor you
#   docker run --rm -v "$PWD/data:/octet/data:ro" -v "$PWD/runs:/octet/runs" octet \
#     launch/mpirun.sh -n 2 train configs/cifar10_resnet20_unified_int8.yaml
FROM debian:bookworm AS build
WORKDIR /octet
COPY launch/setup.sh launch/setup.sh
RUN launch/setup.sh && rm -rf /var/lib/apt/lists/*
COPY . .
RUN cmake --preset release -DOCTET_TESTS=OFF && ninja -C build/release octet && strip build/release/octet

FROM debian:bookworm
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
    openmpi-bin openssh-client tini libyaml-cpp0.7 libspdlog1.10 libdnnl2 libxxhash0 libssl3 libprotobuf32 libpugixml1v5 \
    libopencv-core406 libopencv-imgproc406 libopencv-imgcodecs406 libturbojpeg0 libgomp1 \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --create-home --uid 1000 octet
WORKDIR /octet
COPY --from=build /octet/build/release/octet build/release/octet
COPY launch launch
COPY configs configs
# Open MPI reads the memory of other ranks on the same host, which a container does not allow.
ENV OMPI_MCA_btl_vader_single_copy_mechanism=none PATH=/octet/build/release:$PATH
RUN mkdir runs && chown octet runs
USER octet
ENTRYPOINT ["/usr/bin/tini", "--"]
CMD ["octet", "--help"]
