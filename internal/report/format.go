package report

import (
	"fmt"
	"math"
	"strconv"

	"github.com/netkvlab/netkvlab/internal/results"
)

// decimals returns the decimals for about four significant digits of milliseconds.
func decimals(v float64) int {
	switch a := math.Abs(v); {
	case a >= 1000:
		return 0
	case a >= 100:
		return 1
	case a >= 1:
		return 2
	default:
		return 3
	}
}

// number formats milliseconds.
func number(v float64) string { return strconv.FormatFloat(v, 'f', decimals(v), 64) }

// plain formats a factor without trailing zeros.
func plain(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// interval formats mean ± half width, both with the mean's decimals.
func interval(s *results.Stats) string {
	if s == nil {
		return "-"
	}
	d := decimals(s.Mean)
	if s.CI95 == nil {
		return fmt.Sprintf("%.*f ± ?", d, s.Mean)
	}
	return fmt.Sprintf("%.*f ± %.*f", d, s.Mean, d, *s.CI95)
}

func mean(s *results.Stats) string {
	if s == nil {
		return "-"
	}
	return number(s.Mean)
}

func p50(s *results.Stats) string {
	if s == nil {
		return "-"
	}
	return number(s.P50)
}

func p99(s *results.Stats) string {
	if s == nil {
		return "-"
	}
	return number(s.P99)
}

// percent formats a share of 0..1.
func percent(share *float64) string {
	if share == nil {
		return "-"
	}
	return strconv.FormatFloat(100*(*share), 'f', 1, 64)
}

// size formats bytes in decimal units, as is usual for networks.
func size(n int64) string {
	units := []string{"B", "kB", "MB", "GB", "TB", "PB", "EB"}
	v := float64(n)
	i := 0
	for ; v >= 999.95 && i < len(units)-1; i++ {
		v /= 1000
	}
	if i == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", v, units[i])
}
