#!/usr/bin/env bash
# DeepSpeed for the race, in a Python of its own beside .venv's packages: build/peers.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

python=.venv/bin/python
"$python" -m venv build/peers
packages=$(echo build/peers/lib/python3*/site-packages)
"$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))' >"$packages/base.pth"
build/peers/bin/pip install --quiet deepspeed==0.19.8
