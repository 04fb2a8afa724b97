// SPDX-License-Identifier: Apache-2.0

package ring

// Page is the page that the reader writes, for tests outside of the package.
type Page = readerPage
