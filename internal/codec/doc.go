// Package codec has what several codecs share, and what the gateway has to know of a dialect ([Dialect]). The public
// packages may import it, unlike the other packages of internal/: their users need none of it.
package codec
