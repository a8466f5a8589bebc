#!/bin/sh
# A CA that signs one certificate and is forgotten, and a token with its rights: to try things out, not for production.
# What is secret of the exchange goes to one folder, what clients need to the other.  Does nothing if they have it already.
set -eu
exchange=$1 clients=$2
[ -e "$exchange/rights.toml" ] && exit 0
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
new_key="-newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc"
# shellcheck disable=SC2086
openssl req -x509 $new_key -days 30 -subj "/CN=permitflow trial CA" -addext "keyUsage=critical,keyCertSign" \
  -keyout "$made/ca.key" -out "$clients/ca.pem" 2>/dev/null
# shellcheck disable=SC2086
openssl req $new_key -subj "/CN=exchange" -keyout "$exchange/exchange.key" -out "$made/exchange.csr" 2>/dev/null
printf 'subjectAltName=DNS:exchange,DNS:localhost,IP:127.0.0.1\nextendedKeyUsage=serverAuth\n' > "$made/names"
openssl x509 -req -in "$made/exchange.csr" -CA "$clients/ca.pem" -CAkey "$made/ca.key" -set_serial 1 -days 30 \
  -extfile "$made/names" -out "$exchange/exchange.pem" 2>/dev/null
openssl rand -hex 32 > "$clients/job.token"
digest=$(tr -d '\n' < "$clients/job.token" | sha256sum | cut -d ' ' -f 1)
cat > "$exchange/rights.toml" <<END
[identities.job]
tokens = ["sha256:$digest"]
produce = ["orders/*"]
consume = ["orders/*"]
administer = ["orders/*"]
END
