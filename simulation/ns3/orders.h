// SPDX-License-Identifier: GPL-2.0-only
// Reading what testbed/engines/ns3/driver_orders.py wrote: lines of words, key=value where there is a key.
#pragma once

#include "output.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace testbed
{

/// One line: its first word, the other words, and those of the form key=value.
struct Order
{
    std::string what;
    std::vector<std::string> words;
    std::map<std::string, std::string> values;
    std::string line;

    [[noreturn]] void Wrong(const std::string& why) const
    {
        Fail("orders: " + why + ": " + line);
    }

    bool Has(const std::string& key) const
    {
        return values.count(key) > 0;
    }

    const std::string& Text(const std::string& key) const
    {
        const auto found = values.find(key);
        if (found == values.end())
        {
            Wrong("no " + key);
        }
        return found->second;
    }

    int64_t Int(const std::string& key) const
    {
        const std::string& text = Text(key);
        char* end = nullptr;
        const int64_t number = std::strtoll(text.c_str(), &end, 10);
        if (text.empty() || *end)
        {
            Wrong(key + " is no number");
        }
        return number;
    }

    int64_t Int(const std::string& key, int64_t otherwise) const
    {
        return Has(key) ? Int(key) : otherwise;
    }

    double Number(const std::string& key) const
    {
        const std::string& text = Text(key);
        char* end = nullptr;
        const double number = std::strtod(text.c_str(), &end);
        if (text.empty() || *end)
        {
            Wrong(key + " is no number");
        }
        return number;
    }

    double Number(const std::string& key, double otherwise) const
    {
        return Has(key) ? Number(key) : otherwise;
    }
};

inline bool
Any(const std::vector<Order>& orders, const std::string& what)
{
    return std::any_of(orders.begin(), orders.end(), [&](const Order& order) { return order.what == what; });
}

/// Numbers of 8 bytes in the file that an order names.
inline std::vector<int64_t>
ReadInt64s(const Order& order, const std::string& key)
{
    std::vector<int64_t> numbers;
    std::ifstream file(order.Text(key), std::ios::binary);
    int64_t number;
    while (file.read(reinterpret_cast<char*>(&number), sizeof(number)))
    {
        numbers.push_back(number);
    }
    if (!file.eof() || file.gcount())
    {
        order.Wrong("its " + key + " cannot be read");
    }
    return numbers;
}

inline std::vector<Order>
ReadOrders(const std::string& path)
{
    std::ifstream file(path);
    if (!file)
    {
        Fail(path + ": cannot be read");
    }
    std::vector<Order> orders;
    std::string line;
    while (std::getline(file, line))
    {
        Order order;
        order.line = line;
        std::istringstream words(line);
        words >> order.what;
        std::string word;
        while (words >> word)
        {
            const auto equals = word.find('=');
            if (equals == std::string::npos)
            {
                order.words.push_back(word);
            }
            else
            {
                order.values[word.substr(0, equals)] = word.substr(equals + 1);
            }
        }
        if (!order.what.empty())
        {
            orders.push_back(order);
        }
    }
    return orders;
}

} // namespace testbed
