// SPDX-License-Identifier: GPL-2.0-only
// Files that are written: whatever goes wrong with one ends the driver with one line.
#pragma once

#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace testbed
{

/// End the driver: its last line on standard error is what the engine reports.
[[noreturn]] inline void
Fail(const std::string& message)
{
    std::fflush(stdout);
    std::fprintf(stderr, "%s\n", message.c_str());
    std::_Exit(1);
}

/// A file that is complete when `Close` has returned.
class Output
{
  public:
    explicit Output(const std::string& path)
        : m_path(path),
          m_file(std::fopen(path.c_str(), "wb"))
    {
        if (!m_file)
        {
            Fail(m_path + ": " + std::strerror(errno));
        }
        std::setvbuf(m_file, nullptr, _IOFBF, 1 << 20);
    }

    Output(const Output&) = delete;
    Output& operator=(const Output&) = delete;

    void Print(const char* format, ...) __attribute__((format(printf, 2, 3)))
    {
        va_list arguments;
        va_start(arguments, format);
        const int written = std::vfprintf(m_file, format, arguments);
        va_end(arguments);
        Check(written >= 0);
    }

    /// Numbers as they are in memory.
    void Write(const std::vector<int64_t>& values)
    {
        Check(std::fwrite(values.data(), sizeof(int64_t), values.size(), m_file) == values.size());
    }

    void Close()
    {
        Check(std::fclose(m_file) == 0);
    }

  private:
    void Check(bool good) const
    {
        if (!good)
        {
            Fail(m_path + ": " + std::strerror(errno));
        }
    }

    std::string m_path;
    std::FILE* m_file;
};

} // namespace testbed
