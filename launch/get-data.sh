#!/usr/bin/env bash
# Downloads data sets, or prints the folders that octet reads.
# usage: launch/get-data.sh cifar10 DIR      downloads CIFAR-10 (170 MB), verifies it, unpacks it to DIR/cifar-10-batches-bin
#        launch/get-data.sh imagenet|voc|coco   prints where they come from and the folders that octet reads
# environment: CIFAR10_URL  another address of the same archive: a mirror, or file:///...
set -euo pipefail

cifar10() {
  local to=$1 archive part
  local url=${CIFAR10_URL:-https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz}
  local sha256=c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd
  archive=$to/cifar-10-binary.tar.gz part=$archive.part
  mkdir -p "$to"
  if ! [ -f "$archive" ] || ! echo "$sha256  $archive" | sha256sum --check --status; then
    command -v curl > /dev/null || { echo "get-data.sh: no curl; fix: apt-get install curl" >&2; exit 1; }
    if ! curl --fail --location --retry 3 --continue-at - --output "$part" "$url"; then
      echo "get-data.sh: cannot download $url; download it elsewhere, save it as $archive, and run this script again" >&2
      exit 1
    fi
    if ! echo "$sha256  $part" | sha256sum --check --status; then
      echo "get-data.sh: $part is not the official archive: its SHA-256 is $(sha256sum < "$part" | cut -d' ' -f1), not $sha256;" \
        "delete it and run this script again" >&2
      exit 1
    fi
    mv "$part" "$archive"
  fi
  tar --extract --gzip --file "$archive" --directory "$to" --no-same-owner
  echo "done: octet train configs/cifar10_resnet20_unified_int8.yaml --set data.root=$to/cifar-10-batches-bin"
}

case "${1:-}" in
  cifar10)
    [ $# = 2 ] || { echo "usage: launch/get-data.sh cifar10 DIR" >&2; exit 2; }
    cifar10 "$2"
    ;;
  imagenet)
    cat << 'END'
ImageNet (ILSVRC 2012) is available to registered users at https://image-net.org: ILSVRC2012_img_train.tar and ILSVRC2012_img_val.tar.
octet reads folders whose names are the classes:
  DIR/train/n01440764/n01440764_18.JPEG ...      1000 folders: unpack each class's archive into one
  DIR/val/n01440764/ILSVRC2012_val_00000293.JPEG ...   move each image into the folder of its class
then: octet train configs/imagenet_resnet50_unified_int8.yaml --set data.root=DIR
`octet pack CONFIG --output DIR2` decodes the images once. With data.name: packed and data.root: DIR2 an epoch only crops them.
END
    ;;
  voc | coco)
    cat << 'END'
octet reads PASCAL VOC (http://host.robots.ox.ac.uk/pascal/VOC) and COCO (https://cocodataset.org) in their own layouts:
  DIR/VOCdevkit/VOC2007/{Annotations,ImageSets/Main,JPEGImages}    and VOC2012
  DIR/{train2017,val2017}    DIR/annotations/instances_{train,val}2017.json
then: octet train configs/voc_retinanet_resnet18_unified_int8.yaml --set data.root=DIR/VOCdevkit
or:   octet train configs/coco_retinanet_resnet50_fpn_unified_int8.yaml --set data.root=DIR
Both begin with a trained backbone: launch/get-weights.sh resnet50, and --set model.initial_backbone=resnet50.safetensors
(docs/detection.md, "Trained weights").
END
    ;;
  *)
    sed -n '2,5s/^# //p' "${BASH_SOURCE[0]}" >&2
    exit 2
    ;;
esac
