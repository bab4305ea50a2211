// Package codec has what several codecs of the gateway share and nobody else needs. Public packages below protocol
// may import it, unlike the other packages of internal/.
package codec
