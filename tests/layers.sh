#!/usr/bin/env bash
# Checks that dependencies run one way: kernels <- comm <- src, and inside src config, data, quant <- graph <- models, tasks
# <- train <- report <- commands <- main. Each rule names a folder and what its files may not include. The script also
# checks that no source file has more than 500 lines.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
failed=0

forbid() {  # FOLDER PATTERN
  if grep -rnE --include='*.h' --include='*.cpp' --include='*.inc' --include='*.cu' "#include \"($2)" "$1"; then
    echo "$1 may not include $2"
    failed=1
  fi
}
forbid kernels 'comm/|src/'
forbid kernels/base 'kernels/(shared|reference|cpu|cuda)/|kernels/backend'
forbid kernels/shared 'kernels/(reference|cpu|cuda)/'
forbid kernels/reference 'kernels/(cpu|cuda)/'
forbid kernels/cpu 'kernels/cuda/'
forbid kernels/cuda 'kernels/(reference|cpu)/'
forbid comm 'src/|kernels/(reference|cpu|cuda)/'
forbid src 'kernels/(reference|cpu|cuda)/'
forbid src/config 'src/(data|quant|graph|models|tasks|train|report|commands)/'
forbid src/data 'src/(quant|graph|models|tasks|train|report|commands)/'
forbid src/quant 'src/(data|graph|models|tasks|train|report|commands)/'
forbid src/graph 'src/(data|models|tasks|train|report|commands)/'
forbid src/models 'src/(data|tasks|train|report|commands)/'
forbid src/tasks 'src/(data|train|report|commands)/'
forbid src/train 'src/(report|commands)/'
forbid src/report 'src/commands/'

while read -r lines file; do
  [ "$file" = total ] && continue
  if [ "$lines" -gt 500 ]; then
    echo "$file has $lines lines"
    failed=1
  fi
done < <(find kernels comm src \( -name '*.h' -o -name '*.cpp' -o -name '*.inc' -o -name '*.cu' \) -exec wc -l {} +)
exit $failed
