// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"encoding/json"
	"os"
)

// SaveReports writes reports as JSON.
func SaveReports(file string, reports []Report) error {
	data, err := json.MarshalIndent(reports, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(data, '\n'), 0o644)
}
