package scenarios

import (
	"encoding/json"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRatesAreReadExactly(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]BitsPerSecond{
		"25Gbps":              25e9,
		"25gbit":              25e9,
		"25 Gbit/s":           25e9,
		"25Gbit":              25e9,
		"3.125GB/s":           25e9,
		"3.125GBps":           25e9,
		"3125MB/s":            25e9,
		"25000Mbps":           25e9,
		"0.025Tbps":           25e9,
		"450GB/s":             3600e9,
		"1bps":                1,
		"1B/s":                8,
		"1kbps":               1000,
		"1kB/s":               8000,
		"1KiB/s":              8192,
		"1GiB/s":              8 << 30,
		"34.359738368Gbps":    34359738368,
		"0.001kbps":           1,
		"33.333333333Gbps":    33333333333,
		"9223372036854775807": 0,
	} {
		got, err := ParseBitsPerSecond(text)
		if want == 0 {
			require.Error(t, err, text)
			continue
		}
		require.NoError(t, err, text)
		assert.Equal(t, want, got, text)
	}
}

func TestEveryRateSpellingOfTheTableIsReadAsItsRowSays(t *testing.T) {
	t.Parallel()
	for _, row := range rateSpellings {
		for _, unit := range row.units {
			got, err := ParseBitsPerSecond("7" + unit)
			require.NoError(t, err, unit)
			assert.Equal(t, BitsPerSecond(7*row.bitsPerSecond), got, unit)
		}
	}
}

func TestRefusedRatesSayWhatToWrite(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"25gbps":                 "ambiguous: tc reads it as bytes; write 25Gbps (bits) or 25GB/s (bytes)",
		"2.5mbps":                "write 2.5Mbps (bits) or 2.5MB/s (bytes)",
		"25e9":                   "exponents are not read and the unit is missing; write a rate like 25Gbps (bits) or 3.125GB/s (bytes)",
		"25000000000":            "needs a unit",
		"25Gibps":                "binary prefixes are read on bytes only; write 25Gbps (bits) or 25GiB/s (bytes)",
		"25Gibit":                "write 25Gbps (bits) or 25GiB/s (bytes)",
		"25Gb/s":                 "may mean bits or bytes; write 25Gbps (bits) or 25GB/s (bytes)",
		"25kb/s":                 "write 25kbps (bits) or 25kB/s (bytes)",
		"25Bps":                  "may mean bits or bytes; write 25bps (bits) or 25B/s (bytes)",
		"25GB":                   "is a size, not a rate; write 25GB/s",
		"25G":                    "is incomplete; write 25Gbps (bits) or 25GB/s (bytes)",
		"25furlongs":             `unknown unit "furlongs"`,
		"-1Gbps":                 "negative",
		"0":                      "needs a unit",
		"0Gbps":                  "must be above 0",
		"NaN":                    "not a finite number",
		"+Inf":                   "not a finite number",
		"inf Gbps":               "not a finite number",
		"":                       "empty",
		"Gbps":                   "not a plain decimal number",
		"1,5Gbps":                "not a plain decimal number",
		"25  Gbps":               "not a plain decimal number",
		".5Gbps":                 "not a plain decimal number",
		"0.3bps":                 "whole number of bits per second",
		"9999999999999999Tbps":   "too large",
		string(make([]byte, 90)): "has 90 characters",
	} {
		_, err := ParseBitsPerSecond(text)
		require.ErrorContains(t, err, want, "%q", text)
	}
}

func TestSizesAreReadExactly(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Bytes{
		"5GB": 5e9, "256KiB": 256 << 10, "1448B": 1448, "1kB": 1000, "1KB": 1000, "1.5 MB": 1500000,
		"0B": 0, "1.25GiB": 1342177280, "1.34217728GB": 1342177280, "2TB": 2e12, "1TiB": 1 << 40,
	} {
		got, err := ParseBytes(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, got, text)
	}
	for text, want := range map[string]string{
		"5": "needs a unit", "5gb": `unknown unit "gb"`, "5Gbps": `unknown unit "Gbps"`, "1.5B": "whole number of bytes",
		"-5GB": "negative", "9223372036854775808B": "too large", "1e9B": "exponents",
	} {
		_, err := ParseBytes(text)
		require.ErrorContains(t, err, want, text)
	}
}

func TestUnitsAreWrittenShortAndReadBackTheSame(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "100Gbps", BitsPerSecond(100e9).String())
	assert.Equal(t, "3.6Tbps", BitsPerSecond(3600e9).String())
	assert.Equal(t, "64KiB", Bytes(65536).String())
	assert.Equal(t, "4MB", Bytes(4e6).String())
	assert.Equal(t, "1448B", Bytes(1448).String())
	assert.Equal(t, "0B", Bytes(0).String())
	assert.Equal(t, "-5GB", Bytes(-5e9).String())

	rng := rand.New(rand.NewPCG(1, 2))
	for range 20000 {
		n := rng.Int64() >> rng.IntN(62)
		size, err := ParseBytes(Bytes(n).String())
		require.NoError(t, err, n)
		require.Equal(t, Bytes(n), size)
		if n == 0 {
			continue
		}
		rate, err := ParseBitsPerSecond(BitsPerSecond(n).String())
		require.NoError(t, err, n)
		require.Equal(t, BitsPerSecond(n), rate)
		d, err := parseDuration(formatDuration(time.Duration(n)))
		require.NoError(t, err, formatDuration(time.Duration(n)))
		require.Equal(t, time.Duration(n), d)
	}
}

func TestJSONCarriesPlainNumbersAndReadsBoth(t *testing.T) {
	t.Parallel()
	type pair struct {
		Size Bytes
		Rate BitsPerSecond
	}
	data, err := json.Marshal(pair{5e9, 100e9})
	require.NoError(t, err)
	assert.JSONEq(t, `{"Size": 5000000000, "Rate": 100000000000}`, string(data))
	var got pair
	require.NoError(t, json.Unmarshal(data, &got))
	assert.Equal(t, pair{5e9, 100e9}, got)
	require.NoError(t, json.Unmarshal([]byte(`{"Size": "5GB"}`), &got))
	assert.Equal(t, pair{5e9, 100e9}, got)
	require.Error(t, json.Unmarshal([]byte(`{"Size": 1.5}`), &got))
	require.Error(t, json.Unmarshal([]byte(`{"Size": "5gb"}`), &got))
	assert.InDelta(t, 12.5e9, got.Rate.BytesPerSecond(), 0)
}

func TestTimesAreReadAsGoDoesButExactlyAndWithUnits(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"1.5s": 1500 * time.Millisecond, "100ms": 100 * time.Millisecond, "8us": 8 * time.Microsecond, "8µs": 8 * time.Microsecond,
		"1h2m3.5s": time.Hour + 2*time.Minute + 3500*time.Millisecond, "0s": 0, "0.000000001s": 1, "12.5ms": 12500 * time.Microsecond,
	} {
		got, err := parseDuration(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, got, text)
	}
	for text, want := range map[string]string{
		"5": "needs a unit", "0": "needs a unit", "-1s": "negative", "5 minutes": "not a time", "1s2": "not a time", "1.5ns": "whole number of nanoseconds",
		"9999999h": "too large", "2562047h2562047h": "too large", "1e3s": "exponents", "NaN": "finite",
	} {
		_, err := parseDuration(text)
		require.ErrorContains(t, err, want, text)
	}
	assert.Equal(t, "2m", formatDuration(2*time.Minute))
	assert.Equal(t, "2h", formatDuration(2*time.Hour))
	assert.Equal(t, "10s", formatDuration(10*time.Second))
	assert.Equal(t, "1h0m5s", formatDuration(time.Hour+5*time.Second))
}

func TestArrivalRatesNeedTheirUnit(t *testing.T) {
	t.Parallel()
	got, err := parsePerSecond("0.25/s")
	require.NoError(t, err)
	assert.InDelta(t, 0.25, got, 0)
	for _, text := range []string{"4", "4/m", "4Hz", "-4/s", "NaN/s"} {
		_, err := parsePerSecond(text)
		require.ErrorContains(t, err, "4/s", text)
	}
}
