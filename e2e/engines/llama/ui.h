// The server serves a web page that is made by a build of its own. We have no use for
// it: this header takes its place and holds no files.
#pragma once

#include <array>
#include <cstddef>
#include <string>

struct llama_ui_asset {
    std::string           name;
    const unsigned char * data;
    std::size_t           size;
    std::string           etag;
    std::string           type;
};

inline const llama_ui_asset * llama_ui_find_asset(const std::string &) {
    return nullptr;
}

inline bool llama_ui_use_gzip() {
    return false;
}

inline const std::array<llama_ui_asset, 0> & llama_ui_get_assets() {
    static const std::array<llama_ui_asset, 0> none{};
    return none;
}
