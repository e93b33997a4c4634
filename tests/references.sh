# Sourced by what runs tests: the reference numbers and data that lie beside the project, unless the caller has named others.
# What is not there is not named; tests that need it are counted as skipped.
set -euo pipefail
beside=$(realpath -m "$(dirname "${BASH_SOURCE[0]}")/../../shared")
for pair in RTC_FIXTURES:fixtures/recurrent RTC_ROUTING:fixtures/routing RTC_LATENT:fixtures/latent \
    RTC_RECURSIVE:fixtures/recursive_goldens.json RTC_PRETRAINED:fixtures/pretrained RTC_DATA:data; do
    name=${pair%%:*} place=$beside/${pair#*:}
    if [[ -z "${!name:-}" && -e "$place" ]]; then
        export "$name=$place"
    fi
done
unset beside pair name place
