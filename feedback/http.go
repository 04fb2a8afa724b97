// SPDX-License-Identifier: Apache-2.0

package feedback

// Loads by HTTP: a number between 0 and 1, a percentage, or JSON with the member `load`.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
)

const (
	// maxBody and maxHeader are how much an agent may send.
	maxBody   = 4 << 10
	maxHeader = 16 << 10
	// mostLoad is what a number may be: one that is larger is a percentage without its sign.
	mostLoad = 10
)

// web is a collector.
type web struct {
	at   netip.AddrPort
	conf HTTPConfig
}

func (w *web) poll(ctx context.Context) (Reading, error) {
	transport := &http.Transport{
		DialContext: (&net.Dialer{}).DialContext, DisableKeepAlives: true, DisableCompression: true,
		MaxResponseHeaderBytes: maxHeader,
	}
	defer transport.CloseIdleConnections()
	client := http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+w.at.String()+w.conf.Path, http.NoBody)
	if err != nil {
		return Reading{}, err
	}
	request.Host = w.conf.Host
	request.Header.Set("User-Agent", "polycube-feedback")
	request.Header.Set("Accept", "application/json, text/plain")
	answer, err := client.Do(request)
	if err != nil {
		return Reading{}, plain(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return Reading{}, fmt.Errorf("the agent answers with status %d, want 200", answer.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxBody+1))
	switch {
	case err != nil:
		return Reading{}, plain(err)
	case len(body) > maxBody:
		return Reading{}, fmt.Errorf("the answer is longer than %d bytes", maxBody)
	}
	load, err := ParseLoad(body)
	return Reading{Load: load}, err
}

// ParseLoad parses the body of an answer. The error does not quote it: it may come from a server that is no agent.
func ParseLoad(body []byte) (float64, error) {
	text := strings.TrimSpace(string(body))
	var load float64
	if strings.HasPrefix(text, "{") {
		var is struct {
			Load *float64 `json:"load"`
		}
		if err := json.Unmarshal([]byte(text), &is); err != nil || is.Load == nil {
			return 0, errors.New(`the answer is no JSON with a number "load"`)
		}
		load = *is.Load
	} else {
		number, isPercent := strings.CutSuffix(text, "%")
		parsed, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if err != nil {
			return 0, errors.New(`the answer is neither a number, nor a percentage, nor JSON with a number "load"`)
		}
		if load = parsed; isPercent {
			load /= 100
		}
	}
	if !(load >= 0 && load <= mostLoad) { // also NaN
		return 0, fmt.Errorf("the load is not between 0 and %d: a percentage needs its sign", mostLoad)
	}
	return load, nil
}
